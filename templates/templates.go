// Package templates contains the files that `mcpe-gen init` writes, without go.mod. They form a small MCP server on
// stdio or Streamable HTTP. It has one event type with events that are emitted or found by a check, or it converts
// webhooks of a service into events, or it is a gateway in front of another MCP server. The files are written once and then
// belong to the author.
//
// Start at [Render]. The files are in common/ and in a directory for each transport. The files of a notes server are in
// notes/ and a directory for each source, those of a webhook server are in webhooks/, and those of a gateway in gateway/.
// Each option has a directory:
// store/, bearer/, oauth/, console/, prometheus/, otlp/, typescript/. Shared parts are in partial/. The files are text templates over
// [Scaffold]. Their names end in .tmpl, so that neither the go command nor an editor treats main.go.tmpl as Go.
//
// This package makes no compatibility promise.
package templates

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"net/url"
	"slices"
	"strings"
	"text/template"

	"golang.org/x/mod/module"
)

//go:embed all:common all:stdio all:http all:notes all:noteshttp all:noteevents all:emit all:check all:webhooks
//go:embed all:store all:bearer all:oauth all:console all:prometheus all:otlp all:setup all:typescript all:gateway all:partial
var tree embed.FS

// Transports lists the valid values of Scaffold.Transport.
var Transports = []string{"stdio", "http"}

// Stores, Auths and Exporters list the valid values of Scaffold.Store, Scaffold.Auth and Scaffold.Metrics.
var (
	Stores    = []string{"memory", "sqlite", "postgres", "jetstream"}
	Auths     = []string{"none", "bearer", "oauth"}
	Exporters = []string{"none", "prometheus", "otlp"}
)

// Sources lists the valid values of Scaffold.Source.
var Sources = []string{"emit", "check"}

// A Scaffold is the input of the templates.
type Scaffold struct {
	// Module is the module path of the new module, for example "example.com/demo".
	Module string
	// Name is the name of the program and the MCP server, for example "demo".
	Name string
	// Transport is one of Transports.
	Transport string
	// Source is the origin of events, one of Sources. It is "emit" if the program emits them, or "check" if the server
	// polls an upstream for them.
	Source string
	// Store is the store of events, one of Stores. The default is memory.
	Store string
	// Auth is the authentication of callers, one of Auths. The default is bearer on HTTP and none on stdio.
	Auth string
	// Webhooks enables delivery by webhook. Console enables the operators' console. Both are only for HTTP.
	Webhooks, Console bool
	// Metrics is the exporter of metrics, one of Exporters. Without a value, nothing is exported. The exporter otlp also
	// exports traces, and prometheus is only for HTTP.
	Metrics string
	// TypeScript adds TypeScript code for the event types and a listening program in web/.
	TypeScript bool
	// GoVersion is the go line of go.mod, for example "1.26.0".
	GoVersion string
	// Replace is the file path in a replace line for this module in go.mod, or "".
	Replace string
	// Tools is the directory with the go.mod of the generator, relative to the new module. The default is "tools".
	// Vendored reports whether the module has a vendor directory, which "go tool -modfile" rejects.
	Tools    string
	Vendored bool
	// From is the service that sends the webhooks. If it is nil, the scaffold is the notes server.
	From *From
	// Upstream is the MCP server to which the program adds events as a gateway, or nil. It requires the transport http
	// and the source emit.
	Upstream *Upstream
	// Adopted reports whether the module and its server already exist, for [RenderInto]. RootPackage is then the Go
	// package in the module's directory. OwnEventFile specifies that mcpe.yaml lists only the scaffold's event file
	// instead of all event files in events/.
	Adopted      bool
	RootPackage  string
	OwnEventFile bool
	// Existing are the event files that the module already has, or nil. Without Example, the scaffold adds none to
	// them.
	Existing *Existing
	Example  bool
}

// Existing are event files that a module already has.
type Existing struct {
	// Files are their paths, relative to the module. Package is the name of their package.
	Files   []string
	Package string
}

// SetupPackage is the name of the package below internal/ for an existing server. The package configures the store, the
// authentication of callers, the operators' console and the export of metrics.
const SetupPackage = "eventsetup"

// GoPackage returns the Go package of the setup files. In an existing module, it is [SetupPackage].
func (s Scaffold) GoPackage() string {
	if s.Adopted {
		return SetupPackage
	}
	return "main"
}

// Go returns the name of a function in the setup files. The name is exported if another package calls the function.
func (s Scaffold) Go(name string) string {
	if s.Adopted {
		return strings.ToUpper(name[:1]) + name[1:]
	}
	return name
}

// StoreFlag returns the name of the store's flag, which is also the name of its variable.
func (s Scaffold) StoreFlag() string {
	if s.Store == "jetstream" {
		return "nats"
	}
	return "db"
}

// Shared reports whether several processes can serve from the store.
func (s Scaffold) Shared() bool { return s.Store == "postgres" || s.Store == "jetstream" }

// Modules returns the additional modules that go.mod requires. They are directories below this module's root with the
// same version.
func (s Scaffold) Modules() []string {
	if s.Store == "jetstream" {
		return []string{"runtime/store/jetstream"}
	}
	return nil
}

// exporterModules lists the modules that the exporters import.
var exporterModules = map[string][]module.Version{
	"prometheus": {
		{Path: "github.com/prometheus/client_golang", Version: "v1.25.0"},
		{Path: "github.com/prometheus/otlptranslator", Version: "v1.0.0"},
		{Path: "go.opentelemetry.io/otel/exporters/prometheus", Version: "v0.69.0"},
		{Path: "go.opentelemetry.io/otel/sdk/metric", Version: "v1.47.0"},
	},
	"otlp": {
		{Path: "go.opentelemetry.io/otel", Version: "v1.47.0"},
		{Path: "go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp", Version: "v1.47.0"},
		{Path: "go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp", Version: "v1.47.0"},
		{Path: "go.opentelemetry.io/otel/sdk", Version: "v1.47.0"},
		{Path: "go.opentelemetry.io/otel/sdk/metric", Version: "v1.47.0"},
	},
}

// ExporterModules returns the modules of the exporter that go.mod requires.
func (s Scaffold) ExporterModules() []module.Version { return exporterModules[s.Metrics] }

// Command returns the command line that runs the generator in the module's directory.
func (s Scaffold) Command() string {
	if s.Vendored {
		return "go run -mod=readonly -modfile=" + s.Tools + "/go.mod " + runtimePath + "/cmd/mcpe-gen"
	}
	return "go tool -modfile=" + s.Tools + "/go.mod mcpe-gen"
}

// HasSetup reports whether the scaffold needs [SetupPackage].
func (s Scaffold) HasSetup() bool {
	return s.Adopted && (s.Store != "memory" || s.Auth != "none" || s.Console || s.Metrics != "none")
}

// An Upstream is an MCP server behind a gateway.
type Upstream struct {
	// URL is the URL of its MCP endpoint.
	URL string
	// Open reports whether it answers callers without a token. ToolsOnly reports whether it refuses them only the list of
	// tools.
	Open, ToolsOnly bool
}

// UpstreamAuthenticates reports whether only the MCP server behind the gateway authenticates callers.
func (s Scaffold) UpstreamAuthenticates() bool {
	return s.Upstream != nil && !s.Upstream.Open && s.Auth == "none"
}

// Path returns the path of the MCP endpoint.
func (s Scaffold) Path() string {
	if s.Upstream == nil {
		return "/mcp"
	}
	if u, err := url.Parse(s.Upstream.URL); err == nil && u.Path != "" {
		return u.EscapedPath()
	}
	return "/"
}

// A From is a service that sends webhooks, with its initial event types.
type From struct {
	// Service is the service's name in event files, for example "standard-webhooks". Title is its display name. GoName
	// is the prefix of Go names.
	Service, Title, GoName string
	// Package is the name of the package with the generated types, and of the event file.
	Package string
	// EventFile is the event file. Sample is the body of a webhook for the first of Events.
	EventFile, Sample []byte
	Events            []FromEvent
}

// A FromEvent is an event type of a [From].
type FromEvent struct {
	// Name is the event type's name, GoName is the prefix of its Go names, and Event is the service's name for it.
	Name, GoName, Event string
}

// Env returns the name of the environment variable that contains the webhook secret.
func (f From) Env() string {
	return strings.ToUpper(strings.ReplaceAll(f.Service, "-", "_")) + "_SECRET"
}

// Package returns the name of the package with the generated types, which is below internal/.
func (s Scaffold) Package() string {
	switch {
	case s.From != nil:
		return s.From.Package
	case s.Existing != nil && !s.Example:
		return s.Existing.Package
	}
	return "notes"
}

// directories returns the directories with the files of the scaffold.
func (s Scaffold) directories() []string {
	dirs := []string{"common", s.Transport}
	switch {
	case s.From != nil:
		dirs = append(dirs, "webhooks")
	case s.Upstream != nil:
		dirs = append(dirs, "noteevents", s.Source, "gateway")
	default:
		dirs = append(dirs, "noteevents", "notes", s.Source)
		if s.Transport == "http" {
			dirs = append(dirs, "noteshttp")
		}
	}
	if s.Store != "memory" {
		dirs = append(dirs, "store")
	}
	if s.Auth != "none" {
		dirs = append(dirs, s.Auth)
	}
	if s.Console {
		dirs = append(dirs, "console")
	}
	if s.Metrics != "none" {
		dirs = append(dirs, s.Metrics)
	}
	if s.HasSetup() {
		dirs = append(dirs, "setup")
	}
	if s.TypeScript {
		dirs = append(dirs, "typescript")
	}
	return dirs
}

// Settle sets defaults and returns an error for incompatible choices. The errors mention the flags of init.
func (s *Scaffold) Settle() error {
	s.Store, s.Metrics, s.Tools = cmp.Or(s.Store, "memory"), cmp.Or(s.Metrics, "none"), cmp.Or(s.Tools, "tools")
	if s.Auth == "" {
		s.Auth = "bearer"
		if s.Transport == "stdio" || s.Adopted || s.Upstream != nil { // an existing server keeps its authentication
			s.Auth = "none"
		}
	}
	for _, c := range []struct {
		flag, value string
		choices     []string
	}{{"transport", s.Transport, Transports}, {"source", s.Source, Sources}, {"store", s.Store, Stores}, {"auth", s.Auth, Auths}, {"metrics", s.Metrics, Exporters}} {
		if !slices.Contains(c.choices, c.value) {
			last := len(c.choices) - 1
			return fmt.Errorf("--%s %s: must be %s or %s", c.flag, c.value, strings.Join(c.choices[:last], ", "), c.choices[last])
		}
	}
	switch stdio := s.Transport == "stdio"; {
	case s.Upstream != nil && (stdio || s.Source != "emit" || s.From != nil):
		return errors.New("--beside: an MCP server on HTTP emits the events; leave out --from, --transport stdio and --source check")
	case s.Upstream != nil && s.Webhooks && s.Auth == "none":
		return errors.New("--webhooks: a subscription needs an authenticated caller, and only the MCP server knows its callers; add --auth bearer or --auth oauth")
	case stdio && s.From != nil:
		return fmt.Errorf("webhooks arrive by HTTP, and transport %q cannot receive them; use --transport http", s.Transport)
	case stdio && s.Webhooks:
		return errors.New("--webhooks: a subscription needs an authenticated caller, and stdio has none; use --transport http")
	case stdio && s.Auth != "none":
		return fmt.Errorf("--auth %s: a client on stdio starts the server itself; use --transport http", s.Auth)
	case stdio && s.Console:
		return errors.New("--console: the console needs HTTP; use --transport http")
	case stdio && s.Metrics == "prometheus":
		return errors.New("--metrics prometheus: each client on stdio starts its own server, and only one of them gets the port that Prometheus scrapes; " +
			"use --transport http, or --metrics otlp")
	case s.Webhooks && s.Auth == "none" && !s.Adopted:
		return errors.New("--webhooks: a subscription needs an authenticated caller; use --auth bearer or --auth oauth")
	}
	return nil
}

// GoRelease returns the Go release of GoVersion, for example "1.26". The container image with this tag has the latest
// patch release.
func (s Scaffold) GoRelease() string {
	return strings.TrimPrefix(version.Lang("go"+s.GoVersion), "go")
}

// A File is a file to write.
type File struct {
	// Path is relative to the directory of the new module, with slashes.
	Path    string
	Content []byte
}

// Render returns the files of a scaffold, sorted by path. It writes nothing.
func Render(s Scaffold) ([]File, error) {
	if err := s.Settle(); err != nil {
		return nil, err
	}
	var files []File
	if s.From != nil {
		files = append(files, File{Path: "events/" + s.From.Package + ".yaml", Content: s.From.EventFile},
			File{Path: "testdata/webhook.json", Content: s.From.Sample})
	}
	for _, dir := range s.directories() {
		err := fs.WalkDir(tree, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := execute(name, s)
			if err != nil {
				return err
			}
			files = append(files, File{Path: target(dir, name), Content: content})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// RenderInto returns the files that an existing module needs for the events of a scaffold, sorted by path. These are
// the event file, mcpe.yaml, generate.go, the files in web/, and [SetupPackage]. It writes nothing.
func RenderInto(s Scaffold) ([]File, error) {
	if s.RootPackage == "" {
		return nil, errors.New("the package of generate.go is not known")
	}
	all, err := Render(s)
	if err != nil {
		return nil, err
	}
	setup := []string{"doc.go", "store.go", "auth.go", "auth_test.go", "console.go", "telemetry.go"}
	wanted := []string{"mcpe.yaml", "generate.go"}
	if s.Existing == nil || s.Example {
		wanted = append(wanted, "events/"+s.Package()+".yaml")
	}
	var files []File
	for _, f := range all {
		switch {
		case slices.Contains(setup, f.Path):
			f.Path = "internal/" + SetupPackage + "/" + f.Path
		case !slices.Contains(wanted, f.Path) && !strings.HasPrefix(f.Path, "web/"):
			continue
		}
		files = append(files, f)
	}
	return files, nil
}

// dotNames lists names that begin with a dot in a scaffold. The names of templates omit the dot, because git would
// apply a .gitignore in this directory.
var dotNames = []string{"gitignore", "gitattributes", "dockerignore", "github"}

// target returns the path of a template's file: .gitignore for common/gitignore.tmpl, main.go for http/main.go.tmpl.
func target(dir, name string) string {
	p := strings.TrimSuffix(strings.TrimPrefix(name, dir+"/"), ".tmpl")
	if first, _, _ := strings.Cut(p, "/"); slices.Contains(dotNames, first) {
		return "." + p
	}
	return p
}

func execute(name string, s Scaffold) ([]byte, error) {
	text, err := tree.ReadFile(name)
	if err != nil {
		return nil, err
	}
	t, err := template.New(name).Option("missingkey=error").ParseFS(tree, "partial/*.tmpl")
	if err != nil {
		return nil, err
	}
	if t, err = t.Parse(string(text)); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
