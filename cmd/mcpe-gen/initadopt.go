package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
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
func (s initOptions) adoption(m *adopt.Module, v cli.Version) (templates.Scaffold, error) {
	if s.module != "" && s.module != m.Path {
		return templates.Scaffold{}, cli.Refusef("--module %s: %s says module %s; leave --module out", s.module,
			filepath.Join(s.dir, "go.mod"), m.Path)
	}
	s.module = m.Path
	if m.Replacement.Path != "" && s.replace == "" {
		v.Devel = false // the go.mod already names a checkout
	}
	t, err := s.scaffold(v)
	if err != nil {
		return t, cli.Refuse(err)
	}
	return t, nil
}

// requirement returns what the go.mod of a scaffold needs. A development build needs a replace line, with which any
// version is valid.
func requirement(t templates.Scaffold, v cli.Version) adopt.Requirement {
	r := adopt.Requirement{GoVersion: goVersion, Version: v.Text, Replacement: module.Version{Path: t.Replace}, Modules: t.Modules(),
		Others: t.ExporterModules()}
	if v.Devel {
		r.Version = "v0.0.0"
	}
	return r
}

// adopt adds events to the existing module in s.dir. It detects all errors before it writes the first file.
func (c *command) adopt(ctx context.Context, s initOptions, m *adopt.Module, ask []question) error {
	found, err := adopt.Find(s.dir)
	if err != nil {
		return err
	}
	found.OtherSDK = m.OtherSDK
	if shape, says := found.Describe(); shape == adopt.Unknown && !s.force {
		return &cli.Exit{Code: exitUnknown, Err: fmt.Errorf("init found %s; nothing was written; with --force, it prints a function that adds events to an http.Handler", says)}
	}
	s.isExistingModule = true
	existing, events, err := c.existingEvents(ctx, s.dir)
	if err != nil {
		return err
	}
	if s.existing = existing; existing != nil && s.service == "" {
		ask = slices.DeleteFunc(ask, func(q question) bool { return q.flag == "source" })
	}
	if err := s.useServer(found); err != nil {
		return cli.Refuse(err)
	}
	scaffold, err := s.adoption(m, c.Version)
	if err != nil {
		return err
	}
	if len(ask) > 0 {
		if err := c.ask(ctx, &s, scaffold, ask); err != nil {
			return cli.Refuse(err)
		}
		if scaffold, err = s.adoption(m, c.Version); err != nil {
			return err
		}
	}
	generateFile := "generate.go"
	scaffold.Vendored, _ = isVendored(s.dir)
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
	updates, err := goMods(s.dir, scaffold.Tools, m, requirement(scaffold, c.Version))
	if err != nil {
		return cli.Refuse(err)
	}
	if tools := updates[1]; tools.Old == nil {
		files = append(files, templates.File{Path: tools.Path, Content: tools.Content})
		updates = updates[:1]
	}
	var written []string
	_, err = templates.Write(s.dir, files, func() (err error) {
		if written, err = c.generateIn(ctx, s.dir); err != nil {
			return err
		}
		return overwrite(s.dir, updates)
	}, generatedDirs(scaffold)...)
	if err != nil {
		return err
	}
	for _, f := range files {
		written = append(written, f.Path)
	}
	wiring := wiringOf(scaffold)
	if existing != nil && !scaffold.Example {
		wiring.Events = events
	}
	result := adoptResult{scaffold: scaffold, found: found, hasTool: m.HasTool, files: written, changes: []change{}, edits: wiring.Edits(s.dir, found)}
	for _, u := range updates {
		if !bytes.Equal(u.Old, u.Content) {
			result.changes = append(result.changes, change{Path: u.Path, Action: "update", Diff: unifiedDiff("update", u)})
		}
	}
	return c.showAdopted(ctx, s, result)
}

// existingEvents returns the event files in events/ of the module in dir, and their event types. Other YAML files there
// are not event files. Without event files, or with an mcpe.yaml, it returns nil.
func (c *command) existingEvents(ctx context.Context, dir string) (*templates.Existing, []adopt.Event, error) {
	if _, err := os.Lstat(filepath.Join(dir, "mcpe.yaml")); err == nil {
		return nil, nil, nil
	}
	all, err := filepath.Glob(filepath.Join(dir, "events", "*.yaml"))
	if err != nil {
		return nil, nil, err
	}
	var files []string
	e := &templates.Existing{}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		if eventsKey.Match(text) {
			files = append(files, name)
			e.Files = append(e.Files, "events/"+filepath.Base(name))
		}
	}
	if len(files) == 0 {
		return nil, nil, nil
	}
	name := "events"
	if len(files) == 1 {
		name = strings.TrimSuffix(filepath.Base(files[0]), ".yaml")
	}
	var events []adopt.Event
	requests := []gen.Request{{Files: files, Out: filepath.Join(dir, "internal", name)}}
	err = c.runRequests(requests, func(r gen.Request) ([]source.Diagnostic, error) {
		p, ds, err := gen.Inspect(ctx, r)
		if p != nil {
			e.Package = p.Name
			for _, ev := range p.Events {
				events = append(events, adopt.Event{GoName: ev.Go.Prefix, Source: ev.Source})
			}
		}
		return ds, err
	})
	return e, events, err
}

// eventsKey matches the member of an event file that lists event types.
var eventsKey = regexp.MustCompile(`(?m)^events:`)

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
	for flag, given := range map[string]bool{"auth": s.auth != "" && s.auth != "none", "webhooks": s.webhooks, "console": s.console, "metrics prometheus": s.metrics == "prometheus"} {
		if given {
			return fmt.Errorf("--%s is for a server that is reached by HTTP, and this one runs at %s:%d", flag, run.Path, run.Line)
		}
	}
	return nil
}

// toolsDir returns the directory of the generator's go.mod, relative to the module in dir. It is tools, unless this would
// take Go packages out of the module.
func toolsDir(dir string) string {
	tools := "tools"
	if _, err := os.Stat(filepath.Join(dir, tools, "go.mod")); err == nil {
		return tools
	}
	_ = filepath.WalkDir(filepath.Join(dir, tools), func(name string, _ fs.DirEntry, _ error) error {
		if strings.HasSuffix(name, ".go") {
			tools = "tools/mcpe-gen"
			return fs.SkipAll
		}
		return nil
	})
	return tools
}

// goMods returns two go.mod files for the module m in dir: the one of m with what r requires, and the one in tools, which
// runs the same version of the generator. The latter keeps the other tools there; its Old is nil if it is new.
func goMods(dir, tools string, m *adopt.Module, r adopt.Requirement) ([]gen.File, error) {
	gomod, err := m.Require(r)
	if err != nil {
		return nil, err
	}
	required, err := adopt.ParseModule("go.mod", gomod)
	if err != nil {
		return nil, err
	}
	r = adopt.Requirement{GoVersion: goVersion, Version: required.Version, Replacement: required.Replacement, Tool: true}
	if p := r.Replacement.Path; p != "" && r.Replacement.Version == "" && !filepath.IsAbs(p) {
		// "go mod tidy -C tools" and "go tool -modfile" resolve a relative path differently.
		r.Replacement.Path = filepath.ToSlash(filepath.Join(absolute(dir), p))
	}
	f := gen.File{Path: tools + "/go.mod"}
	generator, err := moduleIn(filepath.Join(dir, tools))
	switch {
	case err != nil:
		return nil, err
	case generator != nil:
		f.Old = generator.Data
	default:
		if generator, err = adopt.ParseModule(f.Path, []byte("module "+m.Path+"/"+tools+"\n")); err != nil {
			return nil, err
		}
	}
	f.Content, err = generator.Require(r)
	return []gen.File{{Path: "go.mod", Old: m.Data, Content: gomod}, f}, err
}

// overwrite replaces the content of existing files below dir. If one of them fails, it restores them.
func overwrite(dir string, updates []gen.File) error {
	for i, u := range updates {
		err := os.WriteFile(filepath.Join(dir, u.Path), u.Content, 0o666)
		if err == nil {
			continue
		}
		for _, f := range updates[:i+1] {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, f.Path), f.Old, 0o666))
		}
		return err
	}
	return nil
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
	w := adopt.Wiring{Import: t.Module + "/" + generatedDir(t) + "/" + t.Package() + config.ServerSuffix, Name: t.Name, Events: []adopt.Event{{GoName: "NoteAdded", Source: t.Source}},
		Webhooks: t.Webhooks, Console: t.Console}
	if t.HasSetup() {
		w.Setup = t.Module + "/internal/" + templates.SetupPackage
	}
	if t.Store != "memory" {
		w.Store = t.Store
	}
	if t.Auth != "none" {
		w.Auth = t.Auth
	}
	if t.Metrics != "none" {
		w.Metrics = t.Metrics
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
		w.Events = append(w.Events, adopt.Event{GoName: e.GoName, Source: "emit"})
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
	found    *adopt.Found
	// hasTool reports whether go.mod has the tool line of the generator.
	hasTool bool
	files   []string
	// changes lists what init has changed in existing files. edits lists what the user changes.
	changes []change
	edits   []adopt.Edit
}

// showAdopted prints the written files, the changes, the lines to add to the server and the commands to run next.
func (c *command) showAdopted(ctx context.Context, s initOptions, a adoptResult) error {
	slices.Sort(a.files)
	next := append(firstCommands(ctx, s.dir, a.scaffold.Tools), "go build ./...")
	next = append(next, webCommands(a.scaffold)...)
	shape, says := a.found.Describe()
	own := []string{}
	if a.scaffold.Existing != nil {
		own = a.scaffold.Existing.Files
	}
	if c.Format == "json" {
		return c.PrintJSON(map[string]any{"adopted": true, "found": map[string]any{"server": shape, "description": says, "eventFiles": own}, "from": s.service, "module": a.scaffold.Module, "directory": s.dir,
			"source": s.source, "files": a.files, "changes": a.changes, "edits": a.edits, "notes": a.notes(), "next": next})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Found %s.\n", says)
	if len(own) > 0 {
		fmt.Fprintf(&b, "Found event files, which mcpe.yaml names: %s.\n", strings.Join(own, ", "))
	}
	fmt.Fprintf(&b, "\nEvents for module %s in %s:\n  %s\n", a.scaffold.Module, s.dir, strings.Join(a.files, "\n  "))
	for _, ch := range a.changes {
		b.WriteString("\n" + ch.Diff)
	}
	for _, e := range a.edits {
		printEdit(&b, e)
	}
	fmt.Fprintf(&b, "\n%s\n\nNext:\n  %s\n", strings.Join(a.notes(), "\n"), strings.Join(next, "\n  "))
	return c.Printf("%s", b.String())
}

// notes returns what else the user has to do.
func (a adoptResult) notes() []string {
	notes := []string{"Before an HTTP server is shut down, es.Shutdown(ctx) ends its event streams."}
	if a.scaffold.Store != "memory" {
		notes = append(notes, "After es.Shutdown(ctx) the store is closed, by its Close.")
	}
	if a.scaffold.Webhooks && a.scaffold.Auth == "none" {
		notes = append(notes, "Webhooks are for callers with a name: the UserID of the SDK's token info, or what server.Options.Principal says.")
	}
	if a.scaffold.Auth == "bearer" {
		notes = append(notes, "tokens.json has who may call, as in {\"s3cret-of-ada\": \"ada\"}: keep it out of the repository.")
	}
	if a.hasTool {
		notes = append(notes, "go.mod has a tool line for the generator, which "+a.scaffold.Tools+"/go.mod has now. To remove it: go mod edit -droptool="+adopt.ToolPath)
	}
	return notes
}

// printEdit prints where an edit goes, its lines as they are pasted, its imports and its note.
func printEdit(b *strings.Builder, e adopt.Edit) {
	b.WriteString("\n")
	switch {
	case e.Line == 0 && e.Insert != "":
		fmt.Fprintf(b, "%s: write\n%s", cmp.Or(e.File, "A new file"), e.Insert)
	case e.Line == 0 && e.File != "":
		fmt.Fprintf(b, "%s:\n", e.File)
	case e.Replace != "" && e.Insert != "":
		fmt.Fprintf(b, "%s:%d: instead of\n%swrite\n%s", e.File, e.Line, e.Replace, e.Insert)
	case e.Replace != "":
		fmt.Fprintf(b, "%s:%d: delete, because nothing uses it any more\n%s", e.File, e.Line, e.Replace)
	case e.Insert != "":
		fmt.Fprintf(b, "%s:%d: after\n%sadd\n%s", e.File, e.Line-1, e.Context, e.Insert)
	case e.Line > 0:
		fmt.Fprintf(b, "%s:%d:\n%s", e.File, e.Line, e.Context)
	}
	if len(e.Imports) > 0 {
		fmt.Fprintf(b, "and import\n\t%s\n", strings.Join(e.Imports, "\n\t"))
	}
	if e.Note != "" {
		b.WriteString(e.Note + "\n")
	}
}
