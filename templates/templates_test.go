package templates

import (
	"bytes"
	"go/format"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func scaffold(transport, source string) Scaffold {
	return Scaffold{Module: "example.com/demo", Name: "demo", Transport: transport, Source: source, GoVersion: "1.26.0"}
}

// The go command must see neither a module nor Go files in here, and all: must find everything.
func TestEveryTemplateEndsInTmpl(t *testing.T) {
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !strings.HasSuffix(name, ".tmpl") {
			t.Errorf("%s does not end in .tmpl", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRenderGivesFormattedGoInPathOrder(t *testing.T) {
	for _, transport := range Transports {
		for _, source := range Sources {
			t.Run(transport+" "+source, func(t *testing.T) {
				files, err := Render(scaffold(transport, source))
				if err != nil {
					t.Fatal(err)
				}
				var paths []string
				for _, f := range files {
					paths = append(paths, f.Path)
					checkRendered(t, f)
				}
				if !slices.IsSorted(paths) {
					t.Errorf("paths are not sorted: %q", paths)
				}
				for _, want := range []string{".dockerignore", ".gitattributes", ".github/workflows/ci.yml", ".gitignore", "Dockerfile", "README.md", "events/notes.yaml",
					"generate.go", "main.go", "mcpe.yaml", "server.go", "server_test.go"} {
					if !slices.Contains(paths, want) {
						t.Errorf("%s is missing from %q", want, paths)
					}
				}
			})
		}
	}
}

func checkRendered(t *testing.T, f File) {
	t.Helper()
	if bytes.Contains(f.Content, []byte("{{")) || bytes.Contains(f.Content, []byte("<no value>")) {
		t.Errorf("%s: an action is left over", f.Path)
	}
	if bytes.Contains(f.Content, []byte("\n\n\n")) || !bytes.HasSuffix(f.Content, []byte("\n")) || bytes.HasSuffix(f.Content, []byte("\n\n")) {
		t.Errorf("%s: blank lines beside an action are left over:\n%s", f.Path, f.Content)
	}
	if path.Ext(f.Path) != ".go" {
		return
	}
	formatted, err := format.Source(f.Content)
	if err != nil {
		t.Errorf("%s: %v", f.Path, err)
	} else if !bytes.Equal(formatted, f.Content) {
		t.Errorf("%s is not gofmt-formatted", f.Path)
	}
}

// Whatever goes together gives Go that is formatted, and text without gaps; the image suits it.
func TestRenderEveryCombination(t *testing.T) {
	n := 0
	for _, s := range combinations() {
		settled := s
		if err := settled.Settle(); err != nil {
			if _, err := Render(s); err == nil {
				t.Errorf("%+v is rendered", s)
			}
			continue
		}
		n++
		files, err := Render(s)
		if err != nil {
			t.Fatal(err)
		}
		has := map[string]string{}
		for _, f := range files {
			checkRendered(t, f)
			if has[f.Path] != "" {
				t.Errorf("%s is there twice", f.Path)
			}
			has[f.Path] = string(f.Content)
		}
		if got := has["store.go"] != ""; got != (settled.Store != "memory") {
			t.Errorf("%+v: store.go %v", s, got)
		}
		if got := has["auth.go"] != ""; got != (settled.Auth != "none") {
			t.Errorf("%+v: auth.go %v", s, got)
		}
		if got := has["console.go"] != ""; got != s.Console {
			t.Errorf("%+v: console.go %v", s, got)
		}
		if got := strings.Contains(has["telemetry.go"], s.Metrics); got != (s.Metrics != "none") {
			t.Errorf("%+v: telemetry.go of the exporter: %v", s, got)
		}
		// REP-15: behind a balancer, clients of older revisions reach whichever process it chooses.
		shared := settled.Store == "postgres" || settled.Store == "jetstream"
		if got := strings.Contains(has["main.go"], "StreamableHTTPOptions{Stateless: true}"); got != (shared && s.Transport == "http") {
			t.Errorf("%+v: main.go without sessions: %v", s, got)
		}
		image := has["Dockerfile"]
		for part, want := range map[string]bool{
			"VOLUME /data\nWORKDIR /data\nUSER 65532:65532": settled.Store == "sqlite",
			`"-db", "/data/events.db"`:                      settled.Store == "sqlite",
			"--chown=65532:65532 /data":                     settled.Store == "sqlite",
			"HEALTHCHECK":                                   s.Transport == "http",
			"/run/secrets/tokens.json":                      settled.Auth == "bearer",
			`"-console", ":8081"`:                           s.Console,
			`"-metrics-addr", ":9464"`:                      s.Metrics == "prometheus",
		} {
			if strings.Contains(image, part) != want {
				t.Errorf("%+v: Dockerfile with %s: %v\n%s", s, part, !want, image)
			}
		}
	}
	if n != 536 {
		t.Errorf("%d combinations", n)
	}
}

// combinations are all of them, also those that do not go together.
func combinations() (all []Scaffold) {
	from := &From{Service: "hmac", Title: "your service", GoName: "HMAC", Package: "hooks", EventFile: []byte("version: 1\n"), Sample: []byte("{}\n"),
		Events: []FromEvent{{Name: "a", GoName: "A", Event: "a"}}}
	for _, transport := range Transports {
		for _, source := range append(slices.Clone(Sources), "from") {
			for _, store := range Stores {
				for _, auth := range append(slices.Clone(Auths), "") {
					for i := range 4 * len(Exporters) {
						s := scaffold(transport, source)
						if source == "from" {
							s.Source, s.From = "emit", from
						}
						s.Store, s.Auth, s.Webhooks, s.Console, s.Metrics = store, auth, i&1 > 0, i&2 > 0, Exporters[i/4]
						all = append(all, s)
					}
				}
			}
		}
	}
	return all
}

// A gateway for every choice that goes with one: its Go is formatted, its files speak of the path of the MCP server, and
// only without a token of its own and with a server that answers everybody is nobody authenticated.
func TestRenderGateway(t *testing.T) {
	n := 0
	for _, b := range []Upstream{{URL: "http://127.0.0.1:3000/api/mcp"}, {URL: "https://mcp.example.com", Open: true}, {URL: "http://h/%22x", ToolsOnly: true}} {
		for _, s := range combinations() {
			s.Upstream, s.TypeScript = &b, s.Console
			settled := s
			fits := s.Transport == "http" && s.Source == "emit" && s.From == nil && (!s.Webhooks || s.Auth == "bearer" || s.Auth == "oauth")
			if err := settled.Settle(); (err == nil) != fits {
				t.Errorf("%+v: %v", s, err)
			}
			if !fits {
				continue
			}
			n++
			files, err := Render(s)
			if err != nil {
				t.Fatal(err)
			}
			has := map[string]string{}
			for _, f := range files {
				checkRendered(t, f)
				if has[f.Path] != "" {
					t.Errorf("%s is there twice", f.Path)
				}
				has[f.Path] = string(f.Content)
				if path.Ext(f.Path) != ".json" && (strings.Contains(string(f.Content), "8080/mcp") || strings.Contains(string(f.Content), "/notes\"") && path.Ext(f.Path) == ".md") {
					t.Errorf("%s speaks of another server", f.Path)
				}
			}
			if has["gateway.go"] == "" || has["emit.go"] == "" || has["gateway_test.go"] == "" || has["notes.go"] != "" || has["server_test.go"] != "" {
				t.Errorf("%+v: the files are not those of a gateway", s)
			}
			if nobody := strings.Contains(has["gateway.go"], "Nobody is authenticated"); nobody != (settled.Auth == "none" && b.Open) {
				t.Errorf("%+v: nobody is authenticated: %v", s, nobody)
			}
			if in := strings.Contains(has["gateway.go"], "handler = authenticate(handler)"); in != (settled.Auth != "none") {
				t.Errorf("%+v: tokens are asked for: %v", s, in)
			}
			if in := strings.Contains(has["gateway.go"], "overlay.AskToolsList"); in != b.ToolsOnly {
				t.Errorf("%+v: tools/list is asked for: %v", s, in)
			}
		}
	}
	if n != 3*4*3*2*(2*4-2) {
		t.Errorf("%d gateways", n)
	}
}

func TestCheckUpstream(t *testing.T) {
	for _, good := range []string{"http://127.0.0.1:3000/mcp", "https://mcp.example.com", "http://[::1]/", "http://h/healthz/mcp"} {
		if err := CheckUpstream(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:3000", "ftp://h/mcp", "http:///mcp", "http://u:p@h/mcp", "http://h/mcp?key=1", "http://h/mcp#x", "http://h/events/mcp", "http://h/\n"} {
		if CheckUpstream(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// The image has nothing but the program, runs as nobody, and does not serve the world without tokens.
func TestDockerfile(t *testing.T) {
	for transport, want := range map[string][]string{
		"stdio": {"FROM golang:1.26 AS build\n", "FROM gcr.io/distroless/static-debian12:nonroot\nCOPY --from=build /server /server\nUSER 65532:65532\nENTRYPOINT [\"/server\"]\n"},
		"http": {"USER 65532:65532\nEXPOSE 8080\n", `CMD ["/server", "-probe", "http://127.0.0.1:8080/readyz"]` + "\nENTRYPOINT [\"/server\"]\n",
			`CMD ["-http", ":8080", "-tokens", "/run/secrets/tokens.json"]`},
	} {
		got := content(t, scaffold(transport, "emit"), "Dockerfile")
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: Dockerfile lacks %q:\n%s", transport, part, got)
			}
		}
	}
}

// content is what a scaffold has in a file.
func content(t *testing.T, s Scaffold, name string) string {
	t.Helper()
	files, err := Render(s)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == name })
	if i < 0 {
		t.Fatalf("no %s", name)
	}
	return string(files[i].Content)
}

// A scaffold whose go.mod names a checkout says so in its Dockerfile and CI; its README says how to take a released version.
func TestContainersAndCIWithReplace(t *testing.T) {
	const line = "# go.mod replaces mcpe-gen by a checkout that is not here: before you use this file, see \"In a container\" in README.md\n"
	for _, name := range []string{"Dockerfile", ".github/workflows/ci.yml"} {
		s := scaffold("http", "emit")
		released := content(t, s, name)
		s.Replace = "../mcpegen"
		if got := content(t, s, name); got != line+released {
			t.Errorf("%s begins with\n%.200s", name, got)
		}
	}
}

func TestRenderRefusesUnknownChoices(t *testing.T) {
	if _, err := Render(scaffold("pigeon", "emit")); err == nil || !strings.Contains(err.Error(), "stdio or http") {
		t.Errorf("got %v, want an error that names the transports", err)
	}
	if _, err := Render(scaffold("stdio", "well")); err == nil || !strings.Contains(err.Error(), "emit or check") {
		t.Errorf("got %v, want an error that names the sources", err)
	}
}

// A go.mod requires what the exporter imports, at the versions that this repository tries.
func TestExporterModules(t *testing.T) {
	tried := ""
	for _, dir := range []string{"../examples/metrics", "../cmd/mcpe-gen/testdata/exporters"} {
		text, err := os.ReadFile(dir + "/go.mod")
		if err != nil {
			t.Fatal(err)
		}
		tried += string(text)
	}
	for _, exporter := range Exporters {
		s := scaffold("http", "emit")
		s.Metrics = exporter
		modules := s.ExporterModules()
		if (len(modules) > 0) != (exporter != "none") {
			t.Errorf("%s requires %v", exporter, modules)
		}
		for _, m := range modules {
			times := regexp.MustCompile(`(?m)^\t`+regexp.QuoteMeta(m.Path)+" (\\S+)$").FindAllStringSubmatch(tried, -1)
			for _, version := range times {
				if version[1] != m.Version {
					t.Errorf("%s %s is tried at %s", m.Path, m.Version, version[1])
				}
			}
			if len(times) == 0 {
				t.Errorf("%s is not tried", m.Path)
			}
		}
	}
}

// The server of a service's webhooks: each service's templates give Go that is formatted, and nothing of the notes.
func TestRenderFrom(t *testing.T) {
	for service, name := range map[string]string{"github": "GitHub", "stripe": "Stripe", "slack": "Slack", "gitlab": "GitLab", "standard-webhooks": "StandardWebhooks", "hmac": "HMAC", "cloudevents": "CloudEvents"} {
		s := scaffold("http", "emit")
		s.From = &From{Service: service, Title: name, GoName: name, Package: "hooks", EventFile: []byte("version: 1\n"), Sample: []byte("{}\n"),
			Events: []FromEvent{{Name: "a", GoName: "A", Event: "a"}, {Name: "b.c", GoName: "BC", Event: "b"}}}
		files, err := Render(s)
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, f := range files {
			paths = append(paths, f.Path)
			checkRendered(t, f)
			if bytes.Contains(f.Content, []byte("notes")) {
				t.Errorf("%s: %s speaks of notes", service, f.Path)
			}
		}
		want := []string{".dockerignore", ".gitattributes", ".github/workflows/ci.yml", ".gitignore", "Dockerfile", "README.md", "auth.go", "events/hooks.yaml",
			"generate.go", "main.go", "mcpe.yaml", "server.go", "server_test.go", "testdata/webhook.json"}
		if !slices.Equal(paths, want) {
			t.Errorf("%s: files %q, want %q", service, paths, want)
		}
		s.Transport = "stdio"
		if _, err := Render(s); err == nil {
			t.Errorf("%s comes by stdio", service)
		}
	}
	if got := (From{Service: "standard-webhooks"}).Env(); got != "STANDARD_WEBHOOKS_SECRET" {
		t.Errorf("the variable is %s", got)
	}
}
