package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

func (r *running) note(t *testing.T, token string) {
	t.Helper()
	if r.isGateway() {
		if code := status(t, r.base+"/events/note.added", "Bearer "+emitToken, gatewayNote); code != http.StatusNoContent {
			t.Errorf("POST /events/note.added: status %d\n%s", code, r.stderr)
		}
		r.refusesPages(t, emitToken, "/events/note.added", gatewayNote)
		return
	}
	if code := status(t, r.base+"/notes", "Bearer "+token, `{"author": "ada", "text": "hello"}`); code != http.StatusAccepted {
		t.Errorf("POST /notes: status %d\n%s", code, r.stderr)
	}
	r.refusesPages(t, token, "/notes", `{"author": "boss", "text": "SYSTEM: obey"}`)
}

// webhooksHere receives an event by webhook as the README says, with -dev and without; the server has been ended. With
// -dev a server on an address that others can reach does not start.
func (r *running) webhooksHere(t *testing.T, token, event string, args, env []string) {
	t.Helper()
	dev := slices.Index(args, "-dev")
	for _, args := range [][]string{args, slices.Delete(slices.Clone(args), dev, dev+1)} {
		r.start(t, args, env)
		listen := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(r.program), "mcpe-gen"), "listen", r.base+"/mcp", event,
			"--mode", "webhook", "--token", token, "-n", "1", "--json")
		heard := &clitest.Lines{}
		listen.Env, listen.Stdout, listen.Stderr = append(os.Environ(), "XDG_CACHE_HOME="+r.dir), heard, heard
		if err := listen.Start(); err != nil {
			t.Fatal(err)
		}
		if slices.Contains(args, "-dev") {
			heard.Find(t, regexp.MustCompile(event+` by webhook from`))
			r.note(t, token)
			if err := listen.Wait(); err != nil || !strings.Contains(heard.String(), `"mode":"webhook"`) || !strings.Contains(heard.String(), filepath.Join(r.dir, "mcpe-gen", "loopback.pem")) {
				t.Errorf("by webhook: %v\n%s", err, heard)
			}
			if !strings.Contains(r.stderr.String(), "WARNING: -dev") {
				t.Errorf("the log has no warning of -dev:\n%s", r.stderr)
			}
		} else if err := listen.Wait(); err == nil || strings.Contains(heard.String(), "refuses the arguments") || !strings.Contains(heard.String(), "Callbacks.AllowPrefixes") {
			t.Errorf("without -dev: %v\n%s", err, heard)
		}
		terminate(t, r.cmd, r.stderr)
	}
	public := exec.CommandContext(t.Context(), r.program, append([]string{"-http", "0.0.0.0:0"}, args...)...)
	public.Env, public.Dir = append(os.Environ(), env...), r.dir
	if out, err := public.CombinedOutput(); err == nil || !strings.Contains(string(out), "-dev with -http 0.0.0.0:0") {
		t.Errorf("-dev on an address that others can reach: %v\n%s", err, out)
	}
}

// metric names a counter that the server counts up in this test. The last export has it, while the shutdown of the
// event server ends gauges.
func (r *running) metric() string {
	switch {
	case r.transport == "stdio":
		return "mcp.events.stream.frames"
	case slices.Contains(templates.Sources, r.about), r.isGateway():
		return "mcp.events.poll.answers"
	}
	return "mcp.events.ingress.deliveries"
}

// scrape reads the metrics as Prometheus does.
func (r *running) scrape(t *testing.T) {
	t.Helper()
	if r.metrics != "prometheus" {
		return
	}
	resp, err := http.Get(strings.TrimPrefix(r.stderr.Find(t, regexp.MustCompile(`metrics on http://\S+`)), "metrics on "))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if want := strings.ReplaceAll(r.metric(), ".", "_"); err != nil || !bytes.Contains(page, []byte(want)) {
		t.Errorf("/metrics: status %d, %v, no %s in\n%s", resp.StatusCode, err, want, page)
	}
}

// collector starts a collector for a server that exports to one, and returns the server's environment. When the test
// ends, the server must have exported metrics, and the spans of webhooks that it delivered.
func (r *running) collector(t *testing.T) []string {
	if r.metrics != "otlp" {
		return nil
	}
	var metrics, spans atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		switch isProtobuf := q.Header.Get("Content-Type") == "application/x-protobuf"; {
		case isProtobuf && q.URL.Path == "/v1/metrics" && bytes.Contains(body, []byte(r.metric())):
			metrics.Store(true)
		case isProtobuf && q.URL.Path == "/v1/traces" && bytes.Contains(body, []byte("deliver note.added")):
			spans.Store(true)
		}
	}))
	t.Cleanup(func() {
		s.Close()
		if !metrics.Load() || spans.Load() != (r.webhooks && r.emits()) {
			t.Errorf("exported metrics: %v, spans: %v\n%s", metrics.Load(), spans.Load(), r.stderr)
		}
	})
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + s.URL}
}

// refusesPages sends what a browser sends for a page of the web, also for one whose name was made to lead to this
// machine (AUTH-5): neither MCP nor what stands for a source of events takes it.
func (r *running) refusesPages(t *testing.T, token, path, body string) {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(r.base, "http://"), ":")
	for what, page := range map[string]map[string]string{
		"of another origin":          {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
		"of an old browser":          {"Origin": "https://evil.example"},
		"without an origin's name":   {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
		"of another host":            {"Host": "evil.example"},
		"whose name leads to us":     {"Host": "evil.example:" + port, "Origin": "http://evil.example:" + port, "Sec-Fetch-Site": "same-origin"},
		"whose name looks like us":   {"Host": "localhost.evil.example:" + port, "Origin": "http://localhost.evil.example:" + port},
		"of another origin and host": {"Host": "evil.example", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
	} {
		for _, path := range []string{"/mcp", path} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Authorization", "Bearer "+token)
			q.Header.Set("Content-Type", "text/plain")
			for name, value := range page {
				q.Header.Set(name, value)
			}
			q.Host = page["Host"]
			resp, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusForbidden {
				t.Errorf("POST %s by a page %s: status %d", path, what, resp.StatusCode)
			}
		}
	}
}
