package gen_test

import (
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// benchSizes are the numbers of event types of design targets: 1,000 cost at most 4 times gofmt of
// the same bytes and at most 15 times what 100 cost.
var benchSizes = []int{10, 100, 1000}

// benchFile is an event file with n event types like those that people write.
func benchFile(n int) string {
	var b strings.Builder
	b.WriteString(`version: 1
schemas:
  Severity: {type: string, enum: [P1, P2, P3, P4]}
  Person:
    type: object
    properties: {id: {type: string}, name: {type: string}}
    required: [id]
events:
`)
	for i := range n {
		fmt.Fprintf(&b, `  - name: incident%d.created
    description: Fires when a new incident is created.
    inputSchema:
      type: object
      properties:
        severity: {$ref: '#/schemas/Severity', x-match: /severity}
        service: {type: string, x-match: {path: /service, op: glob}}
      additionalProperties: false
    payloadSchema:
      type: object
      properties:
        incidentId: {type: string}
        severity: {$ref: '#/schemas/Severity'}
        service: {type: string}
        reporter: {$ref: '#/schemas/Person'}
        openedAt: {type: string, format: date-time}
      required: [incidentId, severity, openedAt]
`, i)
	}
	return b.String()
}

func benchRequest(b *testing.B, n int) gen.Request {
	b.Helper()
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "incidents.yaml"), []byte(benchFile(n)), 0o644); err != nil {
		b.Fatal(err)
	}
	return gen.Request{Dir: dir, Files: []string{"incidents.yaml"}, Out: "out"}
}

func goFiles(b *testing.B, r gen.Request) [][]byte {
	b.Helper()
	p, diags, err := gen.Generate(b.Context(), r)
	if err != nil || p == nil {
		b.Fatal(diags, err)
	}
	var files [][]byte
	for _, f := range p.Create {
		if strings.HasSuffix(f.Path, ".go") {
			files = append(files, f.Content)
		}
	}
	return files
}

// BenchmarkGenerate is a whole run up to the plan: load, check, type, write and format.
func BenchmarkGenerate(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := benchRequest(b, n)
			size := 0
			for _, f := range goFiles(b, r) {
				size += len(f)
			}
			b.SetBytes(int64(size))
			b.ReportMetric(float64(size)/float64(n), "B/type")
			for b.Loop() {
				goFiles(b, r)
			}
		})
	}
}

// BenchmarkGofmt is the limit: formatting the same bytes.
func BenchmarkGofmt(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			files := goFiles(b, benchRequest(b, n))
			size := 0
			for _, f := range files {
				size += len(f)
			}
			b.SetBytes(int64(size))
			for b.Loop() {
				for _, f := range files {
					if _, err := format.Source(f); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
