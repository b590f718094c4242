package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/docs"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// benchSize measures how the time of the generator's verbs grows with their input: event files with 1,250, 2,500 and
// 5,000 types, and 2.5, 5 and 10 MB of JSON on one line. The limit for the sizes 2× and 4× is the time for 1×, so
// ratios of 2 and 4 mean linear growth.
func benchSize(ctx context.Context, _ settings) ([]row, error) {
	dir, err := tempModule()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var rows []row
	for _, in := range []struct {
		what, ext string
		content   func(scale int) []byte
	}{
		{"1,250 event types", ".yaml", func(scale int) []byte { return eventFile(1250 * scale) }},
		{"2.5 MB of one-line JSON", ".json", func(scale int) []byte { return oneLine(2_500_000 * scale) }},
	} {
		var files []string
		for _, scale := range []int{1, 2, 4} {
			file := filepath.Join(dir, fmt.Sprintf("x%d%s", scale, in.ext))
			if err := os.WriteFile(file, in.content(scale), 0o644); err != nil {
				return nil, err
			}
			files = append(files, file)
		}
		for _, verb := range sizedVerbs {
			var times []float64
			for i, file := range files {
				runtime.GC() // the garbage of the previous size does not count
				begin := time.Now()
				if err := verb.run(ctx, file, filepath.Join(dir, "out")); err != nil {
					return nil, fmt.Errorf("%s of %d× %s: %w", verb.name, 1<<i, in.what, err)
				}
				times = append(times, time.Since(begin).Seconds())
			}
			for i, target := range []string{1: "≤ 3.00", 2: "≤ 6.00"} {
				if i > 0 {
					what := fmt.Sprintf("%s, %d× %s against 1×", verb.name, 1<<i, in.what)
					rows = append(rows, row{what, seconds(times[0]), seconds(times[i]), times[i] / times[0], target})
				}
			}
		}
	}
	export, err := benchExport(ctx, dir)
	return append(rows, export), err
}

// benchExport measures `export asyncapi` for 1,000 event types. The limit is generating Go for them.
func benchExport(ctx context.Context, dir string) (row, error) {
	file := filepath.Join(dir, "thousand.yaml")
	if err := os.WriteFile(file, eventFile(1000), 0o644); err != nil {
		return row{}, err
	}
	var times [2]float64
	for i, run := range []func(context.Context, string, string) error{generate, export} {
		runtime.GC()
		begin := time.Now()
		if err := run(ctx, file, filepath.Join(dir, "out")); err != nil {
			return row{}, fmt.Errorf("1,000 event types: %w", err)
		}
		times[i] = time.Since(begin).Seconds()
	}
	return row{"export asyncapi of 1,000 event types against generate (target 3 s)", seconds(times[0]), seconds(times[1]), times[1] / times[0], ""}, nil
}

// generate runs the verb without writing files.
func generate(ctx context.Context, file, out string) error {
	plan, found, err := gen.Generate(ctx, gen.Request{Files: []string{file}, Out: out, Package: "bench"})
	if err == nil && plan == nil {
		err = firstError(found)
	}
	return err
}

// export runs `export asyncapi` without printing.
func export(_ context.Context, file, _ string) error {
	set, err := load(file)
	if err != nil {
		return err
	}
	doc, found := asyncapi.Export(set, asyncapi.Options{Title: "Bench", Version: "1.0.0", ReadFile: os.ReadFile})
	if err := firstError(found); err != nil {
		return err
	}
	_, err = asyncapi.Text(doc, false)
	return err
}

// sizedVerbs runs the verbs of the command on an event file without printing.
var sizedVerbs = []struct {
	name string
	run  func(ctx context.Context, file, out string) error
}{
	{"generate", generate},
	{"export asyncapi", export},
	{"lint", func(_ context.Context, file, _ string) error {
		set, err := load(file)
		if err == nil {
			lint.Check(set, lint.Options{})
		}
		return err
	}},
	{"breaking", func(_ context.Context, file, _ string) error {
		old, err := load(file)
		if err != nil {
			return err
		}
		now, err := load(file)
		if err != nil {
			return err
		}
		if found := breaking.Compare([]breaking.Package{{Set: old}}, []breaking.Package{{Set: now}}, breaking.Options{}); len(found) > 0 {
			return firstError(found)
		}
		return nil
	}},
	{"docs", func(_ context.Context, file, _ string) error {
		set, err := load(file)
		if err != nil {
			return err
		}
		p, found := ir.Build(set, ir.Options{})
		if err := firstError(found); err != nil {
			return err
		}
		docs.New([]docs.Package{{Set: set, Model: p.Describe()}}, docs.Options{Title: "Bench"}).Markdown()
		return nil
	}},
}

func load(file string) (*schema.Set, error) {
	set, found := schema.Load([]string{file}, schema.Options{})
	return set, firstError(found)
}

// firstError returns the first error among diagnostics, or nil.
func firstError(found []source.Diagnostic) error {
	for _, d := range found {
		if d.Severity == source.Error {
			return fmt.Errorf("%s", d)
		}
	}
	return nil
}

// oneLine returns an event file of about size bytes without line breaks, like JSON written by a program.
func oneLine(size int) []byte {
	var members strings.Builder
	for i := range 20 {
		fmt.Fprintf(&members, `,"member%d":{"type":"string","maxLength":200,"description":"What is known about number %d of the bench, in a line of prose."}`, i, i)
	}
	var b strings.Builder
	b.WriteString(`{"version":1,"schemas":{"Level":{"type":"string","enum":["low","high"]}},"events":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"bench%d.created","description":"Fires when number %d is created.","inputSchema":{"type":"object","properties":`+
			`{"level":{"$ref":"#/schemas/Level","x-match":"/level"}},"additionalProperties":false},"payloadSchema":{"type":"object","properties":`+
			`{"level":{"$ref":"#/schemas/Level"}%s},"required":["level"]}}`, i, i, members.String())
	}
	b.WriteString("]}")
	return []byte(b.String())
}
