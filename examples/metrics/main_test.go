package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.yaml.in/yaml/v4"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// A series is what Prometheus sees of a metric: the names of its labels.
type series map[string]map[string]bool

var sample = regexp.MustCompile(`^([a-z_]+)(?:\{(.*)\})? [^ ]+$`)

// scrape reads the series of the extension from a page of /metrics.
func scrape(t *testing.T, page io.Reader) series {
	t.Helper()
	found := series{}
	for scan := bufio.NewScanner(page); scan.Scan(); {
		m := sample.FindStringSubmatch(scan.Text())
		if m == nil || !strings.HasPrefix(m[1], "mcp_events_") {
			continue
		}
		if found[m[1]] == nil {
			found[m[1]] = map[string]bool{}
		}
		for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(m[2], -1) {
			found[m[1]][l[1]] = true
		}
	}
	return found
}

// A row is one of the tables of observability.md.
type row struct {
	metric, kind, unit string
	attributes         []string
	alerts             map[string]string // name to text
}

var (
	tableRow = regexp.MustCompile("(?m)^\\| `(mcp\\.events\\.[a-z_.]+)` \\| (counter|updowncounter|gauge|histogram) \\| `([^`]+)` \\| (.*?) \\| .+ \\| (.*) \\|$")
	word     = regexp.MustCompile("`([^`]+)`")
	alerting = regexp.MustCompile("(?:^|; )(.+?) → `([A-Za-z]+)`")
	link     = regexp.MustCompile(`\[([^]]+)]\([^)]*\)`)
)

// documented reads the tables.
func documented(t *testing.T) (rows []row) {
	t.Helper()
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tableRow.FindAllStringSubmatch(string(page), -1) {
		r := row{metric: m[1], kind: m[2], unit: m[3], alerts: map[string]string{}}
		for _, a := range word.FindAllStringSubmatch(m[4], -1) {
			r.attributes = append(r.attributes, a[1])
		}
		for _, a := range alerting.FindAllStringSubmatch(m[5], -1) {
			r.alerts[a[2]] = strings.ReplaceAll(link.ReplaceAllString(a[1], "$1"), "`", "")
		}
		if len(r.alerts) == 0 {
			t.Errorf("%s has no alert", r.metric)
		}
		rows = append(rows, r)
	}
	if len(rows) < 20 {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

// exported is what Prometheus sees of the tables: the program's exporter is given an instrument of each row, with all its
// attributes. named tells which metric a name of Prometheus belongs to.
func exported(t *testing.T, rows []row) (all series, named map[string]string) {
	t.Helper()
	named = map[string]string{}
	all = series{}
	for _, r := range rows {
		meters, shown, err := newMeters()
		if err != nil {
			t.Fatal(err)
		}
		m, ctx := meters.Meter("tables"), t.Context()
		var with []attribute.KeyValue
		for _, a := range r.attributes {
			with = append(with, attribute.String(a, "x"))
		}
		o := metric.WithAttributes(with...)
		switch r.kind {
		case "counter":
			c, _ := m.Int64Counter(r.metric, metric.WithUnit(r.unit))
			c.Add(ctx, 1, o)
		case "updowncounter":
			c, _ := m.Int64UpDownCounter(r.metric, metric.WithUnit(r.unit))
			c.Add(ctx, 1, o)
		case "gauge":
			g, _ := m.Float64Gauge(r.metric, metric.WithUnit(r.unit))
			g.Record(ctx, 1, o)
		case "histogram":
			h, _ := m.Float64Histogram(r.metric, metric.WithUnit(r.unit))
			h.Record(ctx, 1, o)
		}
		w := httptest.NewRecorder()
		shown.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for name, labels := range scrape(t, w.Body) {
			all[name], named[name] = labels, r.metric
		}
	}
	return all, named
}

// program runs the program until the test ends, and returns its addresses.
func program(t *testing.T) (public, private string) {
	t.Helper()
	r, w := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- run(ctx, options{http: "127.0.0.1:0", metrics: "127.0.0.1:0"}, w) }()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewReader(r)
	for _, to := range []*string{&public, &private} {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		_, *to, _ = strings.Cut(strings.TrimSpace(line), " on ")
	}
	go io.Copy(io.Discard, lines)
	return public, private
}

// The program exports what its server measures under the names and labels that the tables lead to, all of which the rules
// and the dashboard take theirs from.
func TestProgramExports(t *testing.T) {
	public, private := program(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := client.Connect(ctx, client.HTTP(public+"/mcp", nil), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, mode := range []string{"push", "poll"} {
		sub, err := client.Subscribe(ctx, c, client.Dynamic("ticket.created"), json.RawMessage(`{}`), client.WithMode(mode))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.PostForm(public+"/tickets", url.Values{"title": {"It is broken"}})
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
		for _, err := range sub.Events() {
			if err != nil {
				t.Fatal(mode, err)
			}
			break
		}
	}
	resp, err := http.Get(private + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	real := scrape(t, resp.Body)
	want, _ := exported(t, documented(t))
	for name, labels := range real {
		for l := range labels {
			if !want[name][l] && l != "le" {
				t.Errorf("the program exports %s with the label %s, the tables lead to %v", name, l, slices.Sorted(maps.Keys(want[name])))
			}
		}
	}
	for _, name := range []string{"mcp_events_emit_calls_total", "mcp_events_log_appended_total", "mcp_events_poll_answers_total", "mcp_events_stream_frames_total",
		"mcp_events_stream_open", "mcp_events_poll_leases", "mcp_events_webhook_subscriptions"} {
		if real[name] == nil {
			t.Errorf("the program does not export %s, but %v", name, slices.Sorted(maps.Keys(real)))
		}
	}
	if resp, err := http.Get(public + "/metrics"); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("/metrics is public: %v %v", resp, err)
	}
}

var promql = parser.NewParser(parser.Options{})

// measured returns the metrics of an expression, each of which has to be exported with the labels that are asked for.
func measured(t *testing.T, what, expr string, all series, named map[string]string) (metrics []string) {
	t.Helper()
	parsed, err := promql.ParseExpr(expr)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return nil
	}
	known := map[string]bool{"job": true, "instance": true, "le": true}
	var asked []string
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			if all[n.Name] == nil {
				t.Errorf("%s: nothing exports %s", what, n.Name)
			}
			maps.Copy(known, all[n.Name])
			metrics = append(metrics, named[n.Name])
			for _, m := range n.LabelMatchers {
				if m.Name != labels.MetricName && m.Name != "job" && !all[n.Name][m.Name] {
					t.Errorf("%s: %s has no label %s", what, n.Name, m.Name)
				}
			}
		case *parser.AggregateExpr:
			asked = append(asked, n.Grouping...)
		}
		return nil
	})
	for _, l := range asked {
		if !known[l] {
			t.Errorf("%s: nothing in it has the label %s", what, l)
		}
	}
	return metrics
}

// The rules are the column "Alert when" of the tables: one for each alert that is named there, about that row's metric, and
// with its words.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr         string
				For                 string
				Labels, Annotations map[string]string
			}
		}
	}
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	rows := documented(t)
	all, named := exported(t, rows)
	rules := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if rules[r.Alert] {
				t.Errorf("%s stands twice", r.Alert)
			}
			rules[r.Alert] = true
			if _, err := time.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: for: %v", r.Alert, err)
			}
			metrics := measured(t, r.Alert, r.Expr, all, named)
			i := slices.IndexFunc(rows, func(row row) bool { return row.alerts[r.Alert] != "" })
			if i < 0 {
				t.Errorf("the tables have no %s", r.Alert)
				continue
			}
			if !slices.Contains(metrics, rows[i].metric) {
				t.Errorf("%s stands with %s and is about %q", r.Alert, rows[i].metric, metrics)
			}
			if got := r.Annotations["summary"]; got != rows[i].alerts[r.Alert] {
				t.Errorf("%s: %q, the tables say %q", r.Alert, got, rows[i].alerts[r.Alert])
			}
			// A number of the words stands in the expression.
			for _, m := range regexp.MustCompile(`(\d+) (%|s\b)`).FindAllStringSubmatch(rows[i].alerts[r.Alert], -1) {
				number := m[1]
				if m[2] == "%" {
					number = strings.TrimRight(fmt.Sprintf("0.%02s", m[1]), "0")
				}
				if !regexp.MustCompile(`(> |> )` + regexp.QuoteMeta(number) + `\b`).MatchString(r.Expr) {
					t.Errorf("%s: no %s in %s", r.Alert, number, r.Expr)
				}
			}
		}
	}
	for _, r := range rows {
		for name := range r.alerts {
			if !rules[name] {
				t.Errorf("%s: there is no rule %s", r.metric, name)
			}
		}
	}
}

// The dashboard draws what is exported, and every metric of the tables.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Title, UID string
		Panels     []struct {
			ID          int
			Type, Title string
			GridPos     struct{ H, W, X, Y int }
			Targets     []struct{ RefID, Expr, LegendFormat string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	rows := documented(t)
	all, named := exported(t, rows)
	variables := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*")
	drawn, ids := map[string]bool{}, map[int]bool{}
	for _, p := range board.Panels {
		if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s: id %d, place %v", p.Title, p.ID, p.GridPos)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			for _, m := range measured(t, p.Title, expr, all, named) {
				drawn[m] = true
			}
			for _, l := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if !regexp.MustCompile(`\b` + l[1] + `\b`).MatchString(expr) {
					t.Errorf("%s: the legend has %s, which is not asked for", p.Title, l[1])
				}
			}
		}
	}
	for _, r := range rows {
		if !drawn[r.metric] {
			t.Errorf("%s is not drawn", r.metric)
		}
	}
	for _, v := range board.Templating.List {
		for _, m := range regexp.MustCompile(`mcp_events_\w+`).FindAllString(string(v.Query), -1) {
			if all[m] == nil {
				t.Errorf("the variable %s: nothing exports %s", v.Name, m)
			}
		}
	}
}
