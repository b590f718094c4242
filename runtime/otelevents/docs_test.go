package otelevents_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	b, err := os.ReadFile("../../docs/observability.md")
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
	recorder := m.Recorder(nil)
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Telemetry: recorder, Webhooks: webhooks.New(webhooks.Options{})})
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
	adapter, err := mcpe.New(es, mcpe.Options{Telemetry: recorder})
	if err != nil {
		t.Fatal(err)
	}
	defer adapter.Shutdown(context.Background())
	service, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{"of the webhook"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ingress.NewHandler(service, ingress.Options{Telemetry: recorder}, ingress.To(emitter, info, ingress.From{Provider: "github", Event: "issues"})); err != nil {
		t.Fatal(err)
	}
	consume(t, es, recorder)
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

// consume runs a consumer of es.
func consume(t *testing.T, es *server.Server, recorder telemetry.Recorder) {
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
	err = client.Consume(over, c, client.ConsumeOptions{Store: clientmemory.NewCursors(), Telemetry: recorder}, client.Handle(client.Dynamic("e"), nil, nothing))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	<-ran
}

// TestDetails checks that the detail of a series becomes an attribute that observability.md lists for the metric.
func TestDetails(t *testing.T) {
	rows, _ := documented(t)
	m := &metertest.Meter{}
	recorder := m.Recorder(nil)
	for kind := telemetry.Emits; kind <= telemetry.ConsumeProblems; kind++ {
		recorder.Record(t.Context(), telemetry.Series{Kind: kind, Detail: "x"}, 1)
	}
	for kind := telemetry.LogAppended; kind <= telemetry.HandlingLag; kind++ {
		defer recorder.Observe([]telemetry.Kind{kind}, func(report func(telemetry.Series, float64)) {
			report(telemetry.Series{Kind: kind, Detail: "x"}, 1)
		})()
	}
	reported := slices.Concat(slices.Collect(maps.Keys(m.Counted())), slices.Collect(maps.Keys(m.Observed(t))))
	var want []string
	for name, row := range rows {
		for _, a := range row.attributes {
			if !slices.Contains([]string{"mcp.events.type", "mcp.events.outcome", "error.type"}, a) {
				name += " " + a + "=x"
			}
		}
		want = append(want, name)
	}
	slices.Sort(want)
	if slices.Sort(reported); !slices.Equal(reported, want) {
		t.Errorf("reported\n%s\nwant\n%s", strings.Join(reported, "\n"), strings.Join(want, "\n"))
	}
}

// keys are the attributes that this package names.
func keys(t *testing.T) (all []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "instruments.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Key" {
				key, _ := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
				all = append(all, key)
			}
		}
		return true
	})
	if len(all) < 10 {
		t.Fatal(fmt.Sprint("only found ", all))
	}
	return all
}

// TestLinks checks that only this package links OpenTelemetry.
func TestLinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../server/...", "../transport", "../client", "../ingress", "../mcpe", "../telemetry").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		if strings.Contains(dep, "opentelemetry") || strings.HasSuffix(dep, "runtime/otelevents") {
			t.Errorf("links %s", dep)
		}
	}
	if len(deps) < 100 {
		t.Errorf("%d packages are linked", len(deps))
	}
}
