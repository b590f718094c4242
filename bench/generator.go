package main

import (
	"context"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// generateLimit is the maximum CPU time in seconds for 1,000 event types.
const generateLimit = 1.6

// tempModule returns a new temporary directory with a go.mod.
func tempModule() (string, error) {
	dir, err := os.MkdirTemp("", "mcpe-bench-")
	if err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module bench.example\n"), 0o644)
}

// benchGenerate measures the generator's CPU time for 10, 100 and 1,000 event types. The limit is the CPU time of
// go/format for the generated Go. It also measures the growth from 100 to 1,000 types. The maximum for 1,000 types is
// generateLimit.
func benchGenerate(ctx context.Context, s settings) ([]row, error) {
	dir, err := tempModule()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var rows []row
	ours := map[int]float64{}
	for _, n := range []int{10, 100, 1000} {
		file := filepath.Join(dir, fmt.Sprintf("events%d.yaml", n))
		if err := os.WriteFile(file, eventFile(n), 0o644); err != nil {
			return nil, err
		}
		req := gen.Request{Files: []string{file}, Out: filepath.Join(dir, fmt.Sprintf("out%d", n)), Package: "bench"}
		var generate, gofmt []float64
		size := 0
		for range s.rounds {
			runtime.GC() // the garbage of the previous run does not count
			begin := cpuTime()
			plan, diags, err := gen.Generate(ctx, req)
			if err != nil {
				return nil, err
			}
			generate = append(generate, (cpuTime() - begin).Seconds())
			if plan == nil {
				return nil, fmt.Errorf("%d event types: %v", n, diags)
			}
			runtime.GC()
			begin, size = cpuTime(), 0
			for _, f := range plan.Create {
				if strings.HasSuffix(f.Path, ".go") {
					if _, err := format.Source(f.Content); err != nil {
						return nil, err
					}
					size += len(f.Content)
				}
			}
			gofmt = append(gofmt, (cpuTime() - begin).Seconds())
		}
		l, o := median(gofmt), median(generate)
		ours[n] = o
		rows = append(rows, row{fmt.Sprintf("CPU time of generating %d event types (%.1f KB each) against gofmt", n, float64(size)/1024/float64(n)), seconds(l), seconds(o), o / l, ""})
	}
	rows = append(rows, row{"CPU time of generating 1,000 event types", seconds(generateLimit), seconds(ours[1000]), ours[1000] / generateLimit, "≤ 1.00"})
	return append(rows, row{"CPU time of generating 1,000 against 100 event types", seconds(ours[100]), seconds(ours[1000]), ours[1000] / ours[100], "≤ 15.00"}), nil
}

func seconds(x float64) string {
	return time.Duration(x * float64(time.Second)).Round(100 * time.Microsecond).String()
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
