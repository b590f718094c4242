package main

import (
	"context"
	"errors"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

// moduleIn returns the module that the go.mod in dir defines, or nil if dir has no go.mod.
func moduleIn(dir string) (*adopt.Module, error) {
	name := filepath.Join(dir, "go.mod")
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	m, err := adopt.ParseModule(name, data)
	if err != nil {
		return nil, cli.Refuse(err)
	}
	return m, nil
}

// adoption validates the options of init against the existing module and returns the scaffold of the additions.
func (s initOptions) adoption(m *adopt.Module, v cli.Version) (templates.Scaffold, adopt.Requirement, error) {
	if s.module != "" && s.module != m.Path {
		return templates.Scaffold{}, adopt.Requirement{}, &cli.Exit{Code: cli.Usage,
			Err: fmt.Errorf("--module %s: %s says module %s; leave --module out, or write by hand what its go.mod needs",
				s.module, filepath.Join(s.dir, "go.mod"), m.Path),
			Lines: adopt.Requirement{GoVersion: goVersion, Version: requiredVersion(v), Replace: s.replace, Modules: templates.Scaffold{Store: s.store}.Modules()}.Lines()}
	}
	s.module = m.Path
	checked := v
	if m.Replaced && s.replace == "" {
		checked.Devel = false // the go.mod already names a checkout
	}
	t, err := s.scaffold(checked)
	if err != nil {
		return t, adopt.Requirement{}, cli.Refuse(err)
	}
	t.Version = requiredVersion(v)
	if bare, err := strconv.Unquote(t.Replace); err == nil {
		t.Replace = bare // modfile adds the quotes
	}
	return t, adopt.Requirement{GoVersion: goVersion, Version: t.Version, Replace: t.Replace, Modules: t.Modules()}, nil
}

// requiredVersion returns the version to require in a go.mod. A devel build needs a replace line, so any version is
// valid.
func requiredVersion(v cli.Version) string {
	if v.Devel {
		return "v0.0.0"
	}
	return v.Text
}

// adopt adds events to the existing module in s.dir. It detects all errors before it writes the first file.
func (c *command) adopt(ctx context.Context, s initOptions, m *adopt.Module, ask []question) error {
	found, err := adopt.Find(s.dir)
	if err != nil {
		return err
	}
	s.isExistingModule = true
	if err := s.useServer(found); err != nil {
		return cli.Refuse(err)
	}
	scaffold, requirement, err := s.adoption(m, c.Version)
	if err != nil {
		return err
	}
	if len(ask) > 0 {
		if err := c.ask(ctx, &s, scaffold, ask); err != nil {
			return cli.Refuse(err)
		}
		if scaffold, requirement, err = s.adoption(m, c.Version); err != nil {
			return err
		}
	}
	generateFile := "generate.go"
	if scaffold.RootPackage, err = rootPackage(s.dir, scaffold.Name); err != nil {
		return cli.Refuse(err)
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "generate.go")); err == nil {
		generateFile = "generate_events.go" // keep the user's file
	}
	if others, _ := filepath.Glob(filepath.Join(s.dir, "events", "*.yaml")); len(others) > 0 {
		scaffold.OwnEventFile = true // events/ may contain other files
	}
	files, err := templates.RenderInto(scaffold)
	if err != nil {
		return err
	}
	for i := range files {
		if files[i].Path == "generate.go" {
			files[i].Path = generateFile
		}
	}
	if _, err := os.Lstat(filepath.Join(s.dir, "mcpe.yaml")); err == nil {
		return &cli.Exit{Code: cli.Usage, Err: fmt.Errorf("%s already has mcpe.yaml; nothing was written. Add to its packages",
			s.dir), Lines: packageLines(scaffold)}
	}
	files = append(files, templates.File{Path: "events/mcpe-events.schema.json", Content: schema.EventFileSchema()})
	gomod, err := os.ReadFile(filepath.Join(s.dir, "go.mod"))
	if err != nil {
		return err
	}
	changed, err := m.Require(requirement)
	if err != nil {
		return cli.Refuse(err)
	}
	wiring := wiringOf(scaffold)
	steps, err := wiring.Steps(s.dir, found)
	if err != nil {
		return cli.Refuse(err)
	}
	edits := []adopt.Edit{{Path: "go.mod", Old: gomod, New: changed}}
	server, err := adopt.Write(s.dir, found, wiring)
	if s.write {
		if err != nil {
			return cli.Refuse(fmt.Errorf("--write: %w; nothing was written. Without --write init says which lines go where", err))
		}
		edits = append(edits, *server)
	}
	var written []string
	_, err = templates.Write(s.dir, files, func() (err error) {
		if written, err = c.generateIn(ctx, s.dir); err != nil {
			return err
		}
		return replaceFiles(s.dir, edits)
	}, generatedDirs(scaffold)...)
	if err != nil {
		if _, ok := errors.AsType[*templates.ExistsError](err); ok {
			return cli.Refuse(err)
		}
		return err
	}
	for _, f := range files {
		written = append(written, f.Path)
	}
	return c.showAdopted(ctx, s, adoptResult{scaffold, written, edits, server, found, steps})
}

// useServer sets the transport to that of the existing server. It rejects options that the server does not support.
func (s *initOptions) useServer(found *adopt.Found) error {
	var run *adopt.Place
	for i, p := range found.Places {
		switch p.Kind {
		case adopt.Handler, adopt.SSE:
			s.transport = "http"
			return nil
		case adopt.Run:
			run = &found.Places[i]
		}
	}
	if run == nil || s.service != "" {
		s.transport = "http"
		return nil
	}
	s.transport = "stdio"
	for flag, given := range map[string]bool{"auth": s.auth != "" && s.auth != "none", "webhooks": s.webhooks, "console": s.console} {
		if given {
			return fmt.Errorf("--%s is for a server that is reached by HTTP, and this one runs at %s:%d", flag, run.Path, run.Line)
		}
	}
	return nil
}

// replaceFiles writes the edits to existing files. It changes either all of them or none.
func replaceFiles(dir string, edits []adopt.Edit) (err error) {
	files := make([]*os.File, len(edits))
	for i, e := range edits {
		if files[i], err = os.OpenFile(filepath.Join(dir, filepath.FromSlash(e.Path)), os.O_WRONLY, 0); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files[i].Close()) }()
	}
	for i, e := range edits {
		if err := overwrite(files[i], e.New); err != nil {
			for j, changed := range edits[:i+1] {
				err = errors.Join(err, overwrite(files[j], changed.Old))
			}
			return err
		}
	}
	return nil
}

func overwrite(f *os.File, content []byte) error {
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}

// packageLines returns the lines to add to mcpe.yaml for the scaffold's event file.
func packageLines(t templates.Scaffold) []string {
	emit := "server, client, tools"
	if t.From != nil {
		emit += ", ingress"
	}
	lines := []string{"  - schemas: [events/" + t.Package() + ".yaml]", "    out: " + generatedDir(t),
		"    package: " + t.Package(), "    emit: [" + emit + "]"}
	if t.TypeScript {
		lines = append(lines, "    typescript: {out: "+typescriptDir(t)+", emit: [client]}")
	}
	return lines
}

// wiringOf returns the wiring that connects a server to the scaffold's events.
func wiringOf(t templates.Scaffold) adopt.Wiring {
	w := adopt.Wiring{Import: t.Module + "/" + generatedDir(t), Package: t.Package(), Events: []string{"NoteAdded"},
		Check: t.Source == "check", Webhooks: t.Webhooks, Console: t.Console}
	if t.HasSetup() {
		w.Setup = t.Module + "/internal/" + templates.SetupPackage
	}
	if t.Store != "memory" {
		w.Store = t.Store
	}
	if t.Auth != "none" {
		w.Auth = t.Auth
	}
	if t.From == nil {
		return w
	}
	w.Events, w.Ingress = nil, &adopt.Ingress{GoName: t.From.GoName, Env: t.From.Env(), Secrets: "Secrets"}
	switch t.From.Service {
	case "hmac":
		w.Ingress.Options = `, Header: "X-Signature", Event: "/type"`
	case "gitlab", "cloudevents":
		w.Ingress.Secrets = "Tokens"
	}
	for _, e := range t.From.Events {
		w.Events = append(w.Events, e.GoName)
	}
	return w
}

// rootPackage returns the package name of the Go files in dir. Without Go files, it derives the name from that of the
// module.
func rootPackage(dir, name string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	found := ""
	for _, e := range entries {
		if e.IsDir() || !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		if ok, err := build.Default.MatchFile(dir, e.Name()); err != nil || !ok {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		p := f.Name.Name
		if strings.HasSuffix(e.Name(), "_test.go") {
			p = strings.TrimSuffix(p, "_test")
		}
		if found != "" && p != found {
			return "", fmt.Errorf("%s has files of the packages %s and %s", dir, found, p)
		}
		found = p
	}
	if found != "" {
		return found, nil
	}
	name = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
	if name == "main" || !token.IsIdentifier(name) {
		name = "events"
	}
	return name, nil
}

// An adoptResult describes how init changes an existing module.
type adoptResult struct {
	scaffold templates.Scaffold
	files    []string
	// edits are the changes to existing files. server is the edit to the server that --write applies, or nil if init
	// cannot make it.
	edits  []adopt.Edit
	server *adopt.Edit
	found  *adopt.Found
	// steps are the manual changes that the user has to make if server is nil.
	steps []adopt.Step
}

// diffOf returns the diff of an edit.
func diffOf(e adopt.Edit) string {
	return unifiedDiff("update", gen.File{Path: e.Path, Old: e.Old, Content: e.New})
}

// showAdopted prints the written files, the changes, the lines to add to the server and the commands to run next.
func (c *command) showAdopted(ctx context.Context, s initOptions, a adoptResult) error {
	slices.Sort(a.files)
	next, work := firstCommands(ctx, s.dir)
	next = append(append(append(next, "go mod tidy"), vendorCommand(s.dir, work)...), "go build ./...")
	next = append(next, webCommands(a.scaffold)...)
	changes := []change{}
	for _, e := range a.edits {
		if string(e.Old) != string(e.New) {
			changes = append(changes, change{Path: e.Path, Action: "update", Diff: diffOf(e)})
		}
	}
	if c.Format == "json" {
		return c.PrintJSON(map[string]any{"adopted": true, "from": s.service, "module": a.scaffold.Module, "directory": s.dir,
			"source": s.source, "files": a.files, "changes": changes, "places": append([]adopt.Place{}, a.found.Places...),
			"steps": a.steps, "next": next})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Events for module %s in %s:\n  %s\n", a.scaffold.Module, s.dir, strings.Join(a.files, "\n  "))
	for _, ch := range changes {
		b.WriteString("\n" + ch.Diff)
	}
	if !s.write {
		a.serverLines(&b)
	}
	b.WriteString(a.manualSteps())
	fmt.Fprintf(&b, "\nNext:\n  %s\n", strings.Join(next, "\n  "))
	return c.Printf("%s", b.String())
}

// serverLines prints the lines to add to the existing server and where they belong.
func (a adoptResult) serverLines(b *strings.Builder) {
	if a.server != nil {
		b.WriteString("\nThe server is at\n")
		for _, p := range a.found.Places {
			fmt.Fprintf(b, "    %s:%d: %s\n", p.Path, p.Line, p.Text)
		}
		fmt.Fprintf(b, "Change it like this, which init --write would have done too:\n\n%s", diffOf(*a.server))
	} else {
		a.printManualLines(b)
	}
	b.WriteString("\nBefore an HTTP server is shut down, es.Shutdown(ctx) ends its event streams.\n")
}

// manualSteps returns the manual steps that the flags require, other than adding lines.
func (a adoptResult) manualSteps() string {
	var b strings.Builder
	if a.scaffold.Store != "memory" {
		b.WriteString("After es.Shutdown(ctx) the store is closed, by its Close.\n")
	}
	if a.scaffold.Webhooks && a.scaffold.Auth == "none" {
		b.WriteString("Webhooks are for callers with a name: the UserID of the SDK's token info, or what server.Options.Principal says.\n")
	}
	if a.scaffold.Auth == "bearer" {
		b.WriteString("tokens.json has who may call, as in {\"s3cret-of-ada\": \"ada\"}: keep it out of the repository.\n")
	}
	if b.Len() > 0 {
		return "\n" + b.String()
	}
	return ""
}

// printManualLines prints the lines and their locations if the user has to decide how the function ends or how values
// are passed on.
func (a adoptResult) printManualLines(b *strings.Builder) {
	indented := func(lines []string) string { return "    " + strings.Join(lines, "\n    ") + "\n" }
	served := 0
	for _, step := range a.steps {
		p := step.Place
		switch {
		case p.Path == "":
			what := "No call of mcp.NewServer was found."
			if a.found.Makes() {
				what = "Where the program makes its one server then:"
			}
			fmt.Fprintf(b, "\n%s Import\n%sand after what makes the server, srv, add\n%s", what, indented(step.Imports), indented(step.Lines))
			continue
		case len(step.Lines) == 0:
			fmt.Fprintf(b, "\n%s:%d\n    %s\n", p.Path, p.Line, p.Text)
		case p.Kind == adopt.NewServer:
			fmt.Fprintf(b, "\n%s:%d\n    %s\nImport\n%sand after it add\n%s", p.Path, p.Line, p.Text, indented(step.Imports), indented(step.Lines))
		default:
			served++
			fmt.Fprintf(b, "\n%s:%d\n    %s\nImport\n%sand instead of the call write\n%s", p.Path, p.Line, p.Text, indented(step.Imports), indented(step.Lines))
		}
		if step.Note != "" {
			b.WriteString(step.Note + "\n")
		}
	}
	if served == 0 {
		b.WriteString("\nNo call of mcp.NewStreamableHTTPHandler or Run was found. The server is served by one of\n" +
			"    transport.NewHandler(es, transport.HandlerOptions{}) // an http.Handler\n" +
			"    transport.Run(ctx, es, &mcp.StdioTransport{})\n")
	}
	for _, name := range a.found.Broken {
		fmt.Fprintf(b, "\n%s does not parse and was not looked at.\n", name)
	}
}
