package telemetry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A measured instrument is a row of observability.md.
type measured struct {
	kind, unit string
	attributes []string
}

var (
	instrumentRow = regexp.MustCompile("(?m)^\\| `(mcp\\.events\\.[a-z_.]+)` \\| (counter|updowncounter|gauge|histogram) \\| `([^`]+)` \\| (.*?) \\| (.+?) \\| (.*) \\|$")
	attributeRow  = regexp.MustCompile("(?m)^\\| (`(?:mcp|error)\\.[a-z_.]+`(?:, `[a-z_.]+`)*) \\| ([^|]+) \\|$")
	quoted        = regexp.MustCompile("`([^`]+)`")
)

func words(cell string) (all []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		all = append(all, m[1])
	}
	return all
}

func documented(t *testing.T) (instruments map[string]measured, attributes []string) {
	t.Helper()
	b, err := os.ReadFile("../../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	instruments = map[string]measured{}
	for _, m := range instrumentRow.FindAllStringSubmatch(string(b), -1) {
		if _, twice := instruments[m[1]]; twice {
			t.Errorf("%s has two rows", m[1])
		}
		instruments[m[1]] = measured{m[2], m[3], words(m[4])}
	}
	if n := strings.Count(string(b), "\n| `mcp.events."); n < len(instruments) {
		t.Fatalf("%d rows, %d of them understood", n, len(instruments))
	}
	for _, m := range attributeRow.FindAllStringSubmatch(string(b), -1) {
		attributes = append(attributes, words(m[1])...)
	}
	return instruments, attributes
}

// TestMetrics holds observability.md to the instruments that are registered: their names, kinds, units,
// and the keys of their attributes.
func TestMetrics(t *testing.T) {
	m := &metertest.Meter{}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Meter: m, Webhooks: webhooks.New(webhooks.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	schema := json.RawMessage(`{"type":"object"}`)
	info := events.Info{Name: "e", Description: "An event.", InputSchema: schema, PayloadSchema: schema}
	emitter, err := server.Register(es, events.Type[struct{}, struct{}]{Info: info}, server.Hooks[struct{}, struct{}]{})
	if err != nil {
		t.Fatal(err)
	}
	adapter, err := mcpe.New(es, mcpe.Options{Meter: m})
	if err != nil {
		t.Fatal(err)
	}
	defer adapter.Shutdown(context.Background())
	service, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{"of the webhook"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingress.NewHandler(service, ingress.Options{Meter: m}, ingress.To(emitter, info, ingress.From{Provider: "github", Event: "issues"})); err != nil {
		t.Fatal(err)
	}
	consume(t, es, m)
	rows, attributes := documented(t)
	made := m.Instruments()
	for name, i := range made {
		row, ok := rows[name]
		if want := (measured{i.Kind, i.Unit, row.attributes}); !ok || row.kind != want.kind || row.unit != want.unit {
			t.Errorf("%s is a %s in %s, observability.md says %q in %q", name, i.Kind, i.Unit, row.kind, row.unit)
		}
		if i.Description == "" {
			t.Errorf("%s has no description", name)
		}
	}
	for name, row := range rows {
		if _, ok := made[name]; !ok {
			t.Errorf("observability.md has %s, which is not registered", name)
		}
		for _, a := range row.attributes {
			if !slices.Contains(attributes, a) {
				t.Errorf("%s has the attribute %s, which the table of attributes has not", name, a)
			}
		}
	}
	if len(made) < 20 {
		t.Errorf("only %d instruments were made", len(made))
	}
	for _, key := range keys(t) {
		if !slices.Contains(attributes, key) && key != "mcp.events.subscription" && key != "mcp.events.attempt" {
			t.Errorf("the table of attributes has no %s", key)
		}
	}
}

// consume makes the instruments of a consumer of es.
func consume(t *testing.T, es *server.Server, m metric.Meter) {
	t.Helper()
	mine, theirs := mcp.NewInMemoryTransports()
	ran := make(chan error, 1)
	go func() { ran <- transport.Run(context.Background(), es, theirs) }()
	c, err := client.Connect(t.Context(), mine, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	nothing := func(context.Context, *events.Event[json.RawMessage, json.RawMessage]) error { return nil }
	err = client.Consume(over, c, client.ConsumeOptions{Store: clientmemory.NewCursors(), Meter: m}, client.Handle(client.Dynamic("e"), nil, nothing))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-ran
}

// keys are the attributes that package telemetry names. Nothing else in runtime makes one, and no name of
// an instrument is written without the package, which puts the prefix before it.
func keys(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "metertest") {
			return err
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		own := filepath.ToSlash(filepath.Dir(name)) == "../../internal/telemetry"
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || own && selector.Sel.Name != "Key" {
				return true
			}
			x, _ := selector.X.(*ast.Ident)
			switch {
			case own:
				if lit, ok := call.Args[0].(*ast.BasicLit); ok {
					key, _ := strconv.Unquote(lit.Value)
					all = append(all, key)
				}
			case x != nil && x.Name == "attribute" && slices.Contains([]string{"String", "Int", "Int64", "Bool", "Key", "Stringer"}, selector.Sel.Name):
				t.Errorf("%s makes an attribute that package telemetry does not name", set.Position(n.Pos()))
			case slices.Contains([]string{"Int64Counter", "Float64Histogram", "Int64Histogram", "Int64UpDownCounter", "Int64ObservableGauge"}, selector.Sel.Name):
				t.Errorf("%s makes an instrument without package telemetry", set.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatal(fmt.Sprint("only found ", all))
	}
	return all
}
