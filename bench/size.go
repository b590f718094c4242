package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/docs"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/lint"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// benchSize measures how the time of the generator's verbs grows with their input: event files with 625 and 2,500
// types, and 1.25 and 5 MB of JSON on one line. The limit is the time for the smaller one, so a ratio of 4 means linear
// growth. The rows show the verb that grows most.
func benchSize(b *bench) {
	dir := b.tempModule()
	for _, in := range []struct {
		what, ext string
		content   func(scale int) []byte
	}{
		{"625 event types", ".yaml", func(scale int) []byte { return eventFile(625 * scale) }},
		{"1.25 MB of one-line JSON", ".json", func(scale int) []byte { return oneLine(1_250_000 * scale) }},
	} {
		small, large := b.write(dir, "small"+in.ext, in.content(1)), b.write(dir, "large"+in.ext, in.content(4))
		var worst row
		for _, verb := range sizedVerbs {
			timing := func(file string) func() float64 {
				return func() float64 {
					return b.seconds(func() error { return verb.run(b, file, filepath.Join(dir, "out")) })
				}
			}
			m := b.inTurns(timing(small), timing(large))
			r := row{what: fmt.Sprintf("%s, 4× %s against 1×", verb.name, in.what), limit: m[0], ours: m[1], show: duration, target: "≤ 6.00"}
			if r.ratio() > worst.ratio() {
				worst = r
			}
		}
		worst.what += "; the other verbs grow less"
		b.rows = append(b.rows, worst)
	}
	thousand := b.write(dir, "thousand.yaml", eventFile(1000))
	m := b.inTurns(func() float64 { return b.seconds(func() error { return export(b, thousand, "") }) })
	b.within("export asyncapi of 1,000 event types", m[0], 3, duration)
}

// generate runs the verb without writing files.
func generate(ctx context.Context, file, out string) error {
	_, err := planOf(ctx, gen.Request{Files: []string{file}, Out: out, Package: "bench"})
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
	{"breaking", func(_ context.Context, file, _ string) error { return checkAdditive(file, file) }},
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
