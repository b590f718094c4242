package gen_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// maxEventBytes bounds the generated Go of a simple event type on average. About 300 of them are the constant
// of its name and the alias of what a client receives, which are for readers of the code that uses them, and
// 800 the subscription with its three methods.
const maxEventBytes = 3700

// simpleEvents are event types as people name them, with 3 arguments and 5 payload members each.
var simpleEvents = []string{
	"incident.created", "issue.closed", "order.paid", "user.joined", "message.received", "build.failed",
	"deploy.finished", "invoice.sent", "file.uploaded", "alert.raised",
}

func simpleFile() string {
	var b strings.Builder
	b.WriteString("version: 1\nevents:\n")
	for _, name := range simpleEvents {
		fmt.Fprintf(&b, `  - name: %s
    description: Fires when one of them is there.
    inputSchema:
      type: object
      properties:
        service: {type: string, x-match: /service}
        region: {type: string}
        urgent: {type: boolean}
      additionalProperties: false
    payloadSchema:
      type: object
      properties:
        id: {type: string}
        service: {type: string}
        title: {type: string}
        count: {type: integer, minimum: 0, maximum: 1000}
        openedAt: {type: string, format: date-time}
      required: [id, service, openedAt]
`, name)
	}
	return b.String()
}

// TestSize measures the generated code of simple event types and bounds it; -v prints what the bytes
// are spent on.
func TestSize(t *testing.T) {
	dir := module(t, map[string]string{"simple.yaml": simpleFile()})
	p, diags, err := gen.Generate(t.Context(), gen.Request{Dir: dir, Files: []string{"simple.yaml"}, Out: "simple"})
	if err != nil || p == nil {
		t.Fatal(diagnosticText(diags), err)
	}
	total, schemas := 0, 0
	spent := map[string]int{}
	for _, f := range p.Create {
		if filepath.Ext(f.Path) != ".go" {
			continue
		}
		total += len(f.Content)
		schemas += measure(t, f.Content, spent)
	}
	n := len(simpleEvents)
	if out := os.Getenv("MCPE_SIZE_OUT"); out != "" {
		for _, f := range p.Create {
			os.WriteFile(filepath.Join(out, filepath.Base(f.Path)), f.Content, 0o644)
		}
	}
	var report strings.Builder
	for _, what := range sortedKeys(spent) {
		fmt.Fprintf(&report, "\n%6d %s", spent[what]/n, what)
	}
	t.Logf("%d bytes an event type, beside %d of its schemas:%s", (total-schemas)/n, schemas/n, report.String())
	if got := (total - schemas) / n; got > maxEventBytes {
		t.Errorf("a simple event type has %d bytes of generated code, at most %d are allowed", got, maxEventBytes)
	}
}

func sortedKeys(m map[string]int) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return m[b] - m[a] })
	return keys
}

// measure adds the bytes of each kind of declaration, its comment included, and returns those of the
// schema literals.
func measure(t *testing.T, content []byte, spent map[string]int) int {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", content, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	schemas := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok && (id.Name == "InputSchema" || id.Name == "PayloadSchema") {
				ast.Inspect(kv.Value, func(n ast.Node) bool {
					if lit, ok := n.(*ast.BasicLit); ok {
						schemas += len(lit.Value)
					}
					return true
				})
			}
		}
		return true
	})
	for _, d := range file.Decls {
		what := "imports and the file's header"
		begin, end := d.Pos(), d.End()
		switch d := d.(type) {
		case *ast.FuncDecl:
			what = "functions " + strings.TrimRight(d.Name.Name[:min(4, len(d.Name.Name))], "0123456789")
			if d.Recv != nil {
				what = "methods " + d.Name.Name
			}
			if d.Doc != nil {
				begin = d.Doc.Pos()
			}
		case *ast.GenDecl:
			if d.Doc != nil {
				begin = d.Doc.Pos()
			}
			if s, ok := d.Specs[0].(*ast.TypeSpec); ok {
				what = "types"
				for _, suffix := range []string{"Arguments", "Payload", "Hooks", "Emitter"} {
					if strings.HasSuffix(s.Name.Name, suffix) {
						what = "types " + suffix
					}
				}
			} else if d.Tok == token.VAR {
				what = "variables, schemas included"
			}
		}
		spent[what] += int(end-begin) + 2
	}
	return schemas
}
