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

// benchCompile measures the compiler's CPU time for the generated packages of 1,000 event types, excluding dependencies:
// the types with the code for a server, and the types with the code for a client. The limit is the CPU time for the
// types.
func benchCompile(ctx context.Context, s settings) ([]row, error) {
	dir, err := tempModule()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	all, err := newCompilations(ctx, dir)
	if err != nil {
		return nil, err
	}
	seen := map[*compilation][]float64{}
	for range s.rounds {
		for _, c := range all {
			took, err := c.run(ctx)
			if err != nil {
				return nil, err
			}
			seen[c] = append(seen[c], took.Seconds())
		}
	}
	alone := all[0]
	l := median(seen[alone])
	var rows []row
	for _, c := range all[1:] {
		o := l + median(seen[c])
		rows = append(rows, row{"CPU time of compiling 1,000 event types for a " + c.name + " against their types alone", seconds(l), seconds(o), o / l, "≤ 4.00"})
		if alone.peak > 0 {
			megabytes := func(c *compilation) string { return fmt.Sprintf("%d MB", c.peak>>20) }
			rows = append(rows, row{"peak memory of compiling the " + c.name + "'s package (target 800 MB)", megabytes(alone), megabytes(c), float64(c.peak) / float64(alone.peak), ""})
		}
	}
	return rows, nil
}

// A compilation compiles one package.
type compilation struct {
	name string
	args []string
	peak int64 // peak memory of a run in bytes; 0 if unknown
}

// newCompilations generates packages below dir and compiles their imports. The first one has the types.
func newCompilations(ctx context.Context, dir string) ([]*compilation, error) {
	if err := os.WriteFile(filepath.Join(dir, "events.yaml"), eventFile(1000), 0o644); err != nil {
		return nil, err
	}
	plan, found, err := gen.Generate(ctx, gen.Request{Dir: dir, Files: []string{"events.yaml"}, Out: "types", ServerOut: "server", ClientOut: "client"})
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
	embed, err := json.Marshal(map[string]any{"Patterns": map[string][]string{golang.SchemasFile: {golang.SchemasFile}},
		"Files": map[string]string{golang.SchemasFile: filepath.Join(dir, "server", golang.SchemasFile)}})
	if err != nil {
		return nil, err
	}
	lines := []string{"packagefile bench.example/types=" + filepath.Join(dir, "types.a") + "\n"}
	for line := range strings.Lines(string(imports)) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	for name, content := range map[string][]byte{"importcfg": []byte(strings.Join(lines, "")), "embedcfg": embed} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	var all []*compilation
	for _, name := range []string{"types", "server", "client"} {
		files, err := filepath.Glob(filepath.Join(dir, name, "*.go"))
		if err != nil {
			return nil, err
		}
		args := []string{filepath.Join(string(bytes.TrimSpace(tools)), "compile"), "-o", filepath.Join(dir, name+".a"), "-p", "bench.example/" + name,
			"-complete", "-pack", "-importcfg", filepath.Join(dir, "importcfg"), "-embedcfg", filepath.Join(dir, "embedcfg")}
		all = append(all, &compilation{name: name, args: append(args, files...)})
	}
	return all, nil
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
