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
func benchCompile(b *bench) {
	all := newCompilations(b)
	var measured []func() float64
	for _, c := range all {
		measured = append(measured, func() float64 {
			took, peak, err := c.run(b)
			b.check(err)
			c.peaks = append(c.peaks, float64(peak))
			return took.Seconds()
		})
	}
	m := b.inTurns(measured...)
	for i, c := range all[1:] {
		for round, alone := range m[0] {
			m[i+1][round] += alone
		}
		b.against("CPU time of compiling 1,000 event types for a "+c.name+" against their types alone", m[0], m[i+1], duration, "≤ 4.00")
		if median(c.peaks) > 0 {
			b.within("peak memory of compiling the "+c.name+"'s package", c.peaks, 800<<20, size)
		}
	}
}

// A compilation compiles one package.
type compilation struct {
	name  string
	args  []string
	peaks []float64 // peak memory of each run in bytes; 0 if unknown
}

// newCompilations generates packages and compiles their imports. The first one has the types.
func newCompilations(b *bench) (all []*compilation) {
	dir := b.tempModule()
	b.write(dir, "events.yaml", eventFile(1000))
	plan, err := planOf(b, gen.Request{Dir: dir, Files: []string{"events.yaml"}, Out: "types", ServerOut: "server", ClientOut: "client"})
	b.check(err)
	b.check(plan.Apply())
	list := exec.CommandContext(b, "go", "list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}",
		"./runtime/impl/serverimpl", "./runtime/impl/clientimpl", "./runtime/readtool")
	list.Stderr = os.Stderr
	imports, err := list.Output()
	if err != nil {
		b.check(fmt.Errorf("list what generated code imports, from the module's directory: %w", err))
	}
	tools, err := exec.CommandContext(b, "go", "env", "GOTOOLDIR").Output()
	b.check(err)
	embed, err := json.Marshal(map[string]any{"Patterns": map[string][]string{golang.SchemasFile: {golang.SchemasFile}},
		"Files": map[string]string{golang.SchemasFile: filepath.Join(dir, "server", golang.SchemasFile)}})
	b.check(err)
	lines := []string{"packagefile bench.example/types=" + filepath.Join(dir, "types.a") + "\n"}
	for line := range strings.Lines(string(imports)) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	importcfg, embedcfg := b.write(dir, "importcfg", []byte(strings.Join(lines, ""))), b.write(dir, "embedcfg", embed)
	for _, name := range []string{"types", "server", "client"} {
		files, err := filepath.Glob(filepath.Join(dir, name, "*.go"))
		b.check(err)
		args := []string{filepath.Join(string(bytes.TrimSpace(tools)), "compile"), "-o", filepath.Join(dir, name+".a"), "-p", "bench.example/" + name,
			"-complete", "-pack", "-importcfg", importcfg, "-embedcfg", embedcfg}
		all = append(all, &compilation{name: name, args: append(args, files...)})
	}
	return all
}

// run compiles the package and returns the CPU time and the peak memory.
func (c *compilation) run(ctx context.Context) (took time.Duration, peak int64, err error) {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("compile: %w\n%s", err, out)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), peakMemory(cmd.ProcessState), nil
}
