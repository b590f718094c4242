package main

import (
	"context"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// tempModule returns a new directory with a go.mod, which is removed at the end.
func (b *bench) tempModule() string {
	dir := b.tempDir()
	b.check(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module bench.example\n"), 0o644))
	return dir
}

// write writes a file into dir and returns its path.
func (b *bench) write(dir, name string, content []byte) string {
	file := filepath.Join(dir, name)
	b.check(os.WriteFile(file, content, 0o644))
	return file
}

// benchGenerate measures the generator's CPU time for 1,000 event types. The limit is the CPU time of go/format for the
// generated Go. It also measures the growth from 100 to 1,000 types.
func benchGenerate(b *bench) {
	dir := b.tempModule()
	var plan *gen.Plan
	generating := func(n int) func() float64 {
		file := b.write(dir, fmt.Sprintf("events%d.yaml", n), eventFile(n))
		return func() float64 {
			return b.cpuSeconds(func() (err error) {
				plan, err = planOf(b, gen.Request{Files: []string{file}, Out: filepath.Join(dir, fmt.Sprintf("out%d", n)), Package: "bench"})
				return err
			})
		}
	}
	m := b.inTurns(generating(100), generating(1000), func() float64 {
		return b.cpuSeconds(func() (err error) {
			for _, f := range plan.Create {
				if strings.HasSuffix(f.Path, ".go") && err == nil {
					_, err = format.Source(f.Content)
				}
			}
			return err
		})
	})
	b.against("CPU time of generating 1,000 event types against gofmt", m[2], m[1], duration, "")
	b.within("CPU time of generating 1,000 event types", m[1], 1.6, duration)
	b.against("CPU time of generating 1,000 against 100 event types", m[0], m[1], duration, "≤ 15.00")
}

// cpuSeconds calls f after a garbage collection and returns its CPU time.
func (b *bench) cpuSeconds(f func() error) float64 {
	runtime.GC()
	begin := cpuTime()
	b.check(f())
	return (cpuTime() - begin).Seconds()
}

// planOf plans generated files. The first diagnostic is an error.
func planOf(ctx context.Context, r gen.Request) (*gen.Plan, error) {
	plan, found, err := gen.Generate(ctx, r)
	if err == nil && plan == nil {
		err = firstError(found)
	}
	return plan, err
}

// eventFile returns an event file with n different types of typical size.
func eventFile(n int) []byte {
	var b strings.Builder
	b.WriteString("version: 1\nschemas:\n  Severity: {type: string, enum: [P1, P2, P3, P4]}\n  Person:\n    type: object\n    properties: {id: {type: string}, name: {type: string}}\n    required: [id]\nevents:\n")
	for i := range n {
		fmt.Fprintf(&b, `  - name: bench%d.created
    description: Fires when number %d is created.
    inputSchema:
      type: object
      properties:
        severity: {$ref: '#/schemas/Severity', x-match: /severity}
        service: {type: string, x-match: {path: /service, op: glob}}
      additionalProperties: false
    payloadSchema:
      type: object
      properties:
        id%d: {type: string}
        severity: {$ref: '#/schemas/Severity'}
        service: {type: string}
        reporter: {$ref: '#/schemas/Person'}
        count: {type: integer, minimum: 0, maximum: 1000}
        openedAt: {type: string, format: date-time}
      required: [id%d, severity, openedAt]
`, i, i, i, i)
	}
	return []byte(b.String())
}
