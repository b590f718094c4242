package gen_test

import (
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// benchSizes are the numbers of event types of design targets: 1,000 cost at most 1.6 s of CPU and at most 15 times
// as much as 100.
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
	write(b, dir, "go.mod", "module example.com/m\n")
	write(b, dir, "incidents.yaml", benchFile(n))
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

// BenchmarkGenerate is a whole run up to the plan: load, check, type, emit and format.
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
			done := reportCPU(b)
			for b.Loop() {
				goFiles(b, r)
			}
			done()
		})
	}
}

// BenchmarkGofmt formats the same bytes, for comparison.
func BenchmarkGofmt(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			files := goFiles(b, benchRequest(b, n))
			size := 0
			for _, f := range files {
				size += len(f)
			}
			b.SetBytes(int64(size))
			done := reportCPU(b)
			for b.Loop() {
				for _, f := range files {
					if _, err := format.Source(f); err != nil {
						b.Fatal(err)
					}
				}
			}
			done()
		})
	}
}

// BenchmarkBuild compiles and links a program with 1,000 generated event types, server, client and
// tools; it reports the size of the binary and what it is without them.
func BenchmarkBuild(b *testing.B) {
	dir := b.TempDir()
	consumerModule(b, dir)
	write(b, dir, "incidents.yaml", benchFile(1000))
	p, diags, err := gen.Generate(b.Context(), gen.Request{Dir: dir, Files: []string{"incidents.yaml"}, Out: "incidents"})
	if err != nil || p == nil {
		b.Fatal(diags, err)
	}
	if err := p.Apply(); err != nil {
		b.Fatal(err)
	}
	const imports = "package main\n\nimport (\n\t_ \"github.com/mcpe-gen/mcpe-gen/runtime/client\"\n\t_ \"github.com/mcpe-gen/mcpe-gen/runtime/server\"\n%s)\n\nfunc main() {%s}\n"
	write(b, dir, "without/main.go", fmt.Sprintf(imports, "", ""))
	write(b, dir, "with/main.go", fmt.Sprintf(imports, "\t\"example.com/m/incidents/incidentsclient\"\n\t\"example.com/m/incidents/incidentsserver\"\n", " println(len(incidentsserver.ReadTools()), incidentsclient.SubscribeIncident0Created) "))
	size := func(pkg string) float64 {
		build := exec.Command("go", "build", "-mod=mod", "-trimpath", "-o", pkg+".bin", "./"+pkg)
		build.Dir = dir
		if out, err := build.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		info, err := os.Stat(filepath.Join(dir, pkg+".bin"))
		if err != nil {
			b.Fatal(err)
		}
		return float64(info.Size())
	}
	without := size("without")
	with, n := 0.0, 0
	done := reportCPU(b)
	for b.Loop() {
		n++ // a change, so that the package is compiled anew
		write(b, dir, "incidents/change.go", fmt.Sprintf("package incidents\n\nconst change = %d\n", n))
		with = size("with")
	}
	done()
	b.ReportMetric(with/1e6, "MB")
	b.ReportMetric((with-without)/1000, "B/type")
}
