package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/starter"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

// A combination is what init was asked for.
type combination struct {
	// about is "emit", "check", the service of --from, or the URL of --beside.
	about, transport, store, auth string
	webhooks, console             bool
	metrics                       string
}

func (c combination) flags() []string {
	flags := []string{"--transport", c.transport, "--store", c.store, "--metrics", c.metrics}
	if slices.Contains(templates.Sources, c.about) {
		flags = append(flags, "--source", c.about)
	} else if c.isGateway() {
		flags = append(flags, "--beside", c.about)
	} else {
		flags = append(flags, "--from", c.about)
	}
	if c.auth != "" {
		flags = append(flags, "--auth", c.auth)
	}
	if c.webhooks {
		flags = append(flags, "--webhooks")
	}
	if c.console {
		flags = append(flags, "--console")
	}
	return flags
}

func (c combination) isGateway() bool { return peer.IsURL(c.about) }

// emits says whether the program emits the notes that it is sent.
func (c combination) emits() bool { return c.about == "emit" || c.isGateway() }

func (c combination) String() string { return strings.Join(c.flags(), " ") }

// some are the combinations that every test run builds, all those of `make scaffolds`: every two choices that go
// together are in one of them.
var (
	some = []combination{
		{"check", "http", "sqlite", "bearer", false, true, "none"},
		{"emit", "http", "memory", "oauth", true, false, "none"},
		{"github", "http", "sqlite", "none", false, true, "none"},
	}
	all = []combination{
		{"emit", "stdio", "memory", "", false, false, "none"},
		{"check", "stdio", "sqlite", "", false, false, "otlp"},
		{"emit", "stdio", "postgres", "", false, false, "otlp"},
		{"emit", "http", "memory", "bearer", true, true, "otlp"},
		{"emit", "http", "sqlite", "none", false, false, "prometheus"},
		{"emit", "http", "postgres", "oauth", false, false, "none"},
		{"check", "http", "memory", "none", false, true, "otlp"},
		{"check", "http", "sqlite", "bearer", false, true, "none"},
		{"check", "http", "postgres", "oauth", true, false, "prometheus"},
		{"github", "http", "memory", "oauth", false, false, "none"},
		{"github", "http", "sqlite", "none", false, true, "otlp"},
		{"github", "http", "postgres", "bearer", true, false, "prometheus"},
		{"stripe", "http", "memory", "none", false, false, "none"},
		{"stripe", "http", "sqlite", "oauth", true, true, "otlp"},
		{"stripe", "http", "postgres", "bearer", true, true, "prometheus"},
		{"slack", "http", "memory", "oauth", true, false, "prometheus"},
		{"slack", "http", "sqlite", "bearer", false, false, "otlp"},
		{"slack", "http", "postgres", "none", false, true, "none"},
		{"gitlab", "http", "memory", "none", false, true, "otlp"},
		{"gitlab", "http", "sqlite", "oauth", false, false, "none"},
		{"gitlab", "http", "postgres", "bearer", true, false, "prometheus"},
		{"standard-webhooks", "http", "memory", "oauth", false, false, "none"},
		{"standard-webhooks", "http", "sqlite", "bearer", true, true, "otlp"},
		{"standard-webhooks", "http", "postgres", "none", false, true, "prometheus"},
		{"cloudevents", "http", "memory", "bearer", false, true, "prometheus"},
		{"cloudevents", "http", "sqlite", "oauth", true, false, "none"},
		{"cloudevents", "http", "postgres", "none", false, true, "otlp"},
		{"hmac", "http", "memory", "oauth", true, true, "none"},
		{"hmac", "http", "sqlite", "none", false, false, "prometheus"},
		{"hmac", "http", "postgres", "bearer", true, true, "otlp"},
	}
)

// TestCombinations finds every two choices that go together in one of all. The store in JetStream is tried in its
// module.
func TestCombinations(t *testing.T) {
	if len(all) > 30 {
		t.Errorf("%d combinations", len(all))
	}
	pairs := func(c combination) (p []string) {
		choices := []string{c.transport + " " + c.store, c.transport + " " + c.about, c.about + " " + c.store}
		if c.transport == "stdio" {
			return append(choices[:2], c.transport+" "+c.metrics)
		}
		values := []string{"about " + c.about, "store " + c.store, "auth " + c.auth, fmt.Sprint("webhooks ", c.webhooks), fmt.Sprint("console ", c.console), "metrics " + c.metrics}
		for i, a := range values {
			for _, b := range values[i+1:] {
				p = append(p, a+", "+b)
			}
		}
		return append(p, choices...)
	}
	have := map[string]bool{}
	for _, c := range all {
		for _, p := range pairs(c) {
			have[p] = true
		}
	}
	n := 0
	for _, transport := range templates.Transports {
		for _, about := range slices.Concat(templates.Sources, starter.Services) {
			for _, store := range slices.DeleteFunc(slices.Clone(templates.Stores), func(s string) bool { return s == "jetstream" }) {
				for _, auth := range templates.Auths {
					for i := range 4 * len(templates.Exporters) {
						c := combination{about, transport, store, auth, i&1 > 0, i&2 > 0, templates.Exporters[i/4]}
						s := templates.Scaffold{Transport: transport, Source: "emit", Store: store, Auth: auth, Webhooks: c.webhooks, Console: c.console, Metrics: c.metrics}
						if s.Settle() != nil || transport == "stdio" && !slices.Contains(templates.Sources, about) {
							continue
						}
						n++
						for _, p := range pairs(c) {
							if !have[p] {
								t.Errorf("no combination has %s", p)
							}
						}
					}
				}
			}
		}
	}
	if n < 600 {
		t.Errorf("%d possible combinations", n)
	}
}

// TestScaffolds builds, tests and runs what init writes for some combinations, and vets it for the services that are
// not among them; with MCPE_GEN_SCAFFOLDS=all, as `make scaffolds` sets it, it runs all, with none nothing, and with
// other text those whose flags contain it. They are directories of one module, so that the go command loads and builds
// what they share once.
func TestScaffolds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds servers")
	}
	var set, vetted []combination
	switch which := os.Getenv("MCPE_GEN_SCAFFOLDS"); which {
	case "":
		set = append(slices.Clone(some), gateways(t)[0])
		for _, service := range starter.Services {
			vetted = append(vetted, combination{service, "http", "memory", "bearer", false, false, "none"})
		}
	case "none":
		t.Skip("MCPE_GEN_SCAFFOLDS=none: `make scaffolds` runs all of them")
	case "all":
		set = append(slices.Clone(all), gateways(t)...)
	default:
		set = slices.DeleteFunc(append(slices.Clone(all), gateways(t)...), func(c combination) bool { return !strings.Contains(c.String(), which) })
		if len(set) == 0 {
			t.Fatalf("MCPE_GEN_SCAFFOLDS=%s: none of the combinations has it", which)
		}
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "demo")
	var next []string
	for i, c := range append(slices.Clone(set), vetted...) {
		dir := filepath.Join(root, name(i))
		var stdout, stderr bytes.Buffer
		args := append([]string{"init", dir, "--module", "example.com/demo/" + name(i), "--replace", checkout}, c.flags()...)
		if code := run(args, &stdout, &stderr, cli.VersionOf(nil)); code != cli.OK {
			t.Fatalf("%s: exit code %d\n%s", c, code, &stderr)
		}
		_, commands, _ := strings.Cut(stdout.String(), "\nNext:\n")
		next = append(next, commands)
		for _, args := range [][]string{{"-c", filepath.Join(dir, "mcpe.yaml"), "generate", "--check"}, {"-c", filepath.Join(dir, "mcpe.yaml"), "lint"}} {
			stdout.Reset()
			if code := run(args, &stdout, &stderr, cli.VersionOf(nil)); code != cli.OK || stdout.Len() > 0 {
				t.Errorf("%s: %v: exit code %d\n%s%s", c, args, code, &stdout, &stderr)
			}
		}
		gomod := filepath.Join(dir, "go.mod")
		text := readText(t, gomod)
		if err := os.Remove(gomod); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			text = strings.Replace(text, "module example.com/demo/"+name(i)+"\n", "module example.com/demo\n", 1)
			write(t, root, map[string]string{"go.mod": text, "go.sum": sums(t)})
		}
	}
	if slices.ContainsFunc(set, func(c combination) bool { return c.metrics != "none" }) {
		requireExporters(t, root)
	}
	goRun(t, root, "list", "-deps", "-test", "./...")
	goRun(t, root, "vet", "./...")
	bin := filepath.Join(root, "bin")
	test, build := []string{"test", "-vet=off"}, []string{"build", "-o", bin + string(filepath.Separator), "github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen"}
	for i := range set {
		test, build = append(test, "./"+name(i)), append(build, "./"+name(i))
	}
	goRun(t, root, test...)
	goRun(t, root, build...)
	db := ""
	if slices.ContainsFunc(set, func(c combination) bool { return c.store == "postgres" }) {
		db = clitest.Postgres(t)
	}
	for i, c := range set {
		t.Run(c.String(), func(t *testing.T) {
			r := &running{combination: c, program: filepath.Join(bin, name(i)), dir: t.TempDir(), postgres: db}
			if err := readmeCovers(filepath.Join(root, name(i)), next[i]); err != nil {
				t.Error(err)
			}
			if c.store == "postgres" && db == "" {
				t.Skip("NO POSTGRESQL: it is built and not run")
			}
			if c.transport == "stdio" {
				serveStdio(t, r.program, r.collector(t), r.database(t)...)
			} else {
				r.serve(t)
			}
			r.followReadme(t, filepath.Join(root, name(i)))
		})
	}
}

func name(i int) string { return fmt.Sprintf("s%02d", i) }

// running is a server that was built.
type running struct {
	combination
	program, dir, postgres string

	cmd    *exec.Cmd
	stderr *clitest.Lines
	base   string
}

// database are the flags for where its events are kept.
func (r *running) database(t *testing.T) []string {
	switch r.store {
	case "sqlite":
		return []string{"-db", filepath.Join(r.dir, "events.db")}
	case "postgres":
		// Each test is alone in a database of its own: the scaffold's schema has one name.
		name := "scaffold_" + regexp.MustCompile(`\W`).ReplaceAllString(strings.ToLower(filepath.Base(r.program)), "_")
		return []string{"-db", clitest.OwnDatabase(t, r.postgres, name)}
	}
	return nil
}

const operatorToken = "only of the operators"

// start starts the server and waits until it is ready.
func (r *running) start(t *testing.T, args, env []string) {
	t.Helper()
	r.stderr = &clitest.Lines{}
	r.cmd = exec.CommandContext(t.Context(), r.program, append([]string{"-http", "127.0.0.1:0"}, args...)...)
	r.cmd.Env, r.cmd.Stderr, r.cmd.Dir = append(os.Environ(), env...), r.stderr, r.dir
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.base = strings.TrimPrefix(r.stderr.Find(t, regexp.MustCompile(`MCP on http://[^/ ]+`)), "MCP on ")
	for _, path := range []string{"/readyz", "/healthz"} {
		if code := status(t, r.base+path, "", ""); code != http.StatusOK {
			t.Errorf("%s: status %d\n%s", path, code, r.stderr)
		}
	}
}

// serve does with a server what its users do: a client with and without a token, an agent that waits for an event, the
// same agent after a restart, an operator.
func (r *running) serve(t *testing.T) {
	args, env, token := r.database(t), []string{"EVENTS_KEY=" + strings.Repeat("0f", 32)}, ""
	switch r.auth {
	case "bearer":
		tokens := filepath.Join(r.dir, "tokens.json")
		if err := os.WriteFile(tokens, []byte(`{"s3cret-of-ada": "ada"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		args, token = append(args, "-tokens", tokens), "s3cret-of-ada"
	case "oauth":
		const resource = "https://mcp.example.com/mcp"
		issuer := issuer(t, resource)
		env = append(env, "OAUTH_RESOURCE="+resource, "OAUTH_ISSUER="+issuer, "OAUTH_INTROSPECTION="+issuer)
		token = "s3cret"
	case "":
		if r.isGateway() {
			token = "s3cret" // which the MCP server behind it asks for
		}
	}
	if r.console {
		args, env = append(args, "-console", "127.0.0.1:0"), append(env, "OPERATOR_TOKEN="+operatorToken)
	}
	if r.metrics == "prometheus" {
		args = append(args, "-metrics-addr", "127.0.0.1:0")
	}
	env = append(append(env, r.collector(t)...), r.secret()...)
	if r.webhooks {
		args = append(args, "-dev")
	}
	r.start(t, args, env)
	if out, err := exec.CommandContext(t.Context(), r.program, "-probe", r.base+"/readyz").CombinedOutput(); err != nil {
		t.Errorf("-probe: %v\n%s", err, out)
	}
	if err := exec.CommandContext(t.Context(), r.program, "-probe", r.base+"/none").Run(); err == nil {
		t.Error("-probe is content with status 404")
	}
	r.operate(t)
	if token != "" {
		if code := status(t, r.base+"/mcp", "Bearer guessed", ""); code != http.StatusUnauthorized {
			t.Errorf("a guessed token: status %d", code)
		}
	}
	if r.auth == "oauth" {
		if code := status(t, r.base+"/.well-known/oauth-protected-resource/mcp", "", ""); code != http.StatusOK {
			t.Errorf("metadata: status %d", code)
		}
	}
	event := r.modes(t, token)
	before := r.wait(t, token, event, "")
	if !slices.Contains(templates.Sources, r.about) && !r.isGateway() {
		if code := status(t, r.base+"/"+packageOf(r.about), "", "{}"); code != http.StatusUnauthorized {
			t.Errorf("a webhook without a signature: status %d", code)
		}
		r.scrape(t)
		if r.about == "github" {
			postGitHub(t, r.base)
			if after := r.wait(t, token, "push", before.Cursor); len(after.Events) != 1 || !bytes.Contains(after.Events[0], []byte(`"d-1"`)) {
				t.Errorf("after a webhook: %+v", after)
			}
		}
		terminate(t, r.cmd, r.stderr)
		return
	}
	r.scrape(t)
	r.note(t, token)
	if r.webhooks {
		defer r.webhooksHere(t, token, event, args, env)
	}
	if after := r.wait(t, token, event, before.Cursor); len(after.Events) != 1 || after.Truncated {
		t.Errorf("after a note: %+v", after)
	}
	terminate(t, r.cmd, r.stderr)
	r.start(t, args, env)
	again := r.wait(t, token, event, before.Cursor)
	if kept := r.store != "memory" && r.emits(); kept != (len(again.Events) == 1) || kept == again.Truncated {
		t.Errorf("after a restart: %+v", again)
	}
	terminate(t, r.cmd, r.stderr)
}

// issuer is an authorization server with one token, s3cret, which was made for the resource.
func issuer(t *testing.T, resource string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"active": q.FormValue("token") == "s3cret", "sub": "ada", "aud": resource,
			"exp": time.Now().Add(time.Hour).Unix()})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// secret is what the webhooks of its service are signed with.
func (r *running) secret() []string {
	if r.isGateway() {
		return []string{"EMIT_TOKEN=" + emitToken}
	}
	f := templates.From{Service: r.about}
	if r.about == "standard-webhooks" {
		return []string{f.Env() + "=" + f.Secret()} // which has a form of its own
	}
	return []string{f.Env() + "=s3cret-of-ada"}
}

// packageOf is the generated package of a service.
func packageOf(service string) string {
	from, err := serviceData(service, nil)
	if err != nil {
		return service
	}
	return from.Package
}

// operate asks the console with and without its token.
func (r *running) operate(t *testing.T) {
	t.Helper()
	if !r.console {
		return
	}
	at := strings.TrimPrefix(r.stderr.Find(t, regexp.MustCompile(`console is on http://\S+`)), "console is on ")
	if code := status(t, at, "", ""); code != http.StatusUnauthorized {
		t.Errorf("the console without a token: status %d", code)
	}
	if code := status(t, at, "Bearer "+operatorToken, ""); code != http.StatusOK {
		t.Errorf("the console: status %d", code)
	}
}

// status is that of a GET, or of a POST where there is a body.
func status(t *testing.T, url, authorization, body string) int {
	t.Helper()
	method, content := http.MethodGet, io.Reader(nil)
	if body != "" {
		method, content = http.MethodPost, strings.NewReader(body)
	}
	q, err := http.NewRequestWithContext(t.Context(), method, url, content)
	if err != nil {
		t.Fatal(err)
	}
	if authorization != "" {
		q.Header.Set("Authorization", authorization)
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// modes expects webhook among the modes of the event types where it was asked for, and gives the first of them.
func (r *running) modes(t *testing.T, token string) (event string) {
	t.Helper()
	c, err := client.Connect(t.Context(), client.HTTP(r.base+"/mcp", &http.Client{Transport: bearer(token)}), client.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, r.stderr)
	}
	defer c.Close()
	list, err := c.List(t.Context())
	if err != nil || len(list) == 0 {
		t.Fatal(err, list)
	}
	for _, d := range list {
		if got := slices.Contains(d.Delivery, wire.ModeWebhook); got != r.webhooks {
			t.Errorf("%s is delivered by %v", d.Name, d.Delivery)
		}
	}
	return list[0].Name
}

// wait calls the wait tool as an agent does whose client knows no events.
func (r *running) wait(t *testing.T, token, event, cursor string) (answer struct {
	Events    []json.RawMessage
	Cursor    string
	Truncated bool
}) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: r.base + "/mcp", HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	args := map[string]any{"events": []any{map[string]string{"name": event}}, "waitSeconds": 0}
	if cursor != "" {
		args["cursor"] = cursor
	}
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: server.WaitTool, Arguments: args})
	if err != nil || res.IsError {
		t.Fatalf("%v %+v\n%s", err, res, r.stderr)
	}
	if err := json.Unmarshal([]byte(res.Content[0].(*mcp.TextContent).Text), &answer); err != nil {
		t.Fatal(err)
	}
	return answer
}
