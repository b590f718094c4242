package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
)

// benchCompile measures the compiler's CPU time for a generated package with 1,000 event types, excluding dependencies.
// The limit is the same package with only its types.
func benchCompile(ctx context.Context, s settings) ([]row, error) {
	dir, err := os.MkdirTemp("", "mcpe-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "events.yaml")
	if err := os.WriteFile(file, eventFile(1000), 0o644); err != nil {
		return nil, err
	}
	alone, err := newCompilation(ctx, dir, file, "types")
	if err != nil {
		return nil, err
	}
	whole, err := newCompilation(ctx, dir, file, "server", "client", "tools")
	if err != nil {
		return nil, err
	}
	var limits, own []float64
	for range s.rounds {
		for c, times := range map[*compilation]*[]float64{alone: &limits, whole: &own} {
			took, err := c.run(ctx)
			if err != nil {
				return nil, err
			}
			*times = append(*times, took.Seconds())
		}
	}
	l, o := median(limits), median(own)
	rows := []row{{"CPU time of compiling 1,000 event types against their types alone", seconds(l), seconds(o), o / l, "≤ 5.00"}}
	if alone.peak > 0 {
		megabytes := func(c *compilation) string { return fmt.Sprintf("%d MB", c.peak>>20) }
		rows = append(rows, row{"peak memory of compiling them (target 800 MB)", megabytes(alone), megabytes(whole), float64(whole.peak) / float64(alone.peak), ""})
	}
	return rows, nil
}

// A compilation compiles one package.
type compilation struct {
	args []string
	peak int64 // peak memory of a run in bytes; 0 if unknown
}

// newCompilation generates a package below dir and compiles its imports.
func newCompilation(ctx context.Context, dir, file string, emit ...string) (*compilation, error) {
	out := filepath.Join(dir, emit[0])
	plan, found, err := gen.Generate(ctx, gen.Request{Files: []string{file}, Out: out, Package: "bench", Emit: emit})
	if err != nil {
		return nil, err
	}
	if plan == nil {
		return nil, firstError(found)
	}
	if err := plan.Apply(); err != nil {
		return nil, err
	}
	list := exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}",
		"./runtime/impl/serverimpl", "./runtime/impl/clientimpl", "./runtime/readtool")
	list.Stderr = os.Stderr
	imports, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list what generated code imports, from the module's directory: %w", err)
	}
	tools, err := exec.CommandContext(ctx, "go", "env", "GOTOOLDIR").Output()
	if err != nil {
		return nil, err
	}
	schemas := filepath.Join(out, golang.SchemasFile)
	embed, err := json.Marshal(map[string]any{"Patterns": map[string][]string{golang.SchemasFile: {golang.SchemasFile}},
		"Files": map[string]string{golang.SchemasFile: schemas}})
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(imports)) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	for name, content := range map[string][]byte{"importcfg": []byte(strings.Join(lines, "")), "embedcfg": embed} {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	c := &compilation{args: []string{filepath.Join(string(bytes.TrimSpace(tools)), "compile"), "-o", filepath.Join(out, "bench.a"), "-p", "bench",
		"-complete", "-pack", "-importcfg", filepath.Join(out, "importcfg"), "-embedcfg", filepath.Join(out, "embedcfg")}}
	for _, f := range plan.Create {
		if filepath.Ext(f.Path) == ".go" {
			c.args = append(c.args, f.Path)
		}
	}
	return c, nil
}

// run compiles the package and returns the CPU time.
func (c *compilation) run(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("compile: %w\n%s", err, out)
	}
	c.peak = max(c.peak, peakMemory(cmd.ProcessState))
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
