// Package gen generates typed Go and TypeScript from event files. It is what the command mcpe-gen, the tests and
// the golden cases call.
//
// [Generate] reads event files and returns a [Plan]: which files of the output directory are to be
// created, updated and deleted. A plan is compared, shown, verified or applied; everything that
// the flags of `mcpe-gen generate` do starts from it. [Inspect] returns the model instead.
//
// The kind of an error says where to fix it: diagnostics of severity error are about the event files, a
// [UsageError] is about the arguments of the call, and any other error is a failure to read or write.
package gen

import (
	"context"
	"encoding/json"
	"fmt"
	"go/build"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/gen/typescript"
)

// A Request describes one Go package to generate.
type Request struct {
	// Dir is the directory that relative paths start from; empty means the working directory.
	Dir string
	// Files are the event files of the package, Out is its directory. Without Out no Go is written, only what
	// TypeScript asks for.
	Files []string
	Out   string
	// TypeScript asks for TypeScript of the package; nil means none. See TS-1.
	TypeScript *TypeScript
	// Package is the Go package's name. When empty the event files' own `package` is used, and
	// without one the name of Out.
	Package string
	// Emit lists what is written beside the types: "server", "client", "tools" and "ingress"; empty means
	// the first three, "types" alone means none of them, and "ingress" brings "server" with it.
	Emit []string
	// Types maps a schema's format to the Go type of its values, such as
	// uuid → github.com/google/uuid.UUID.
	Types map[string]string
	// Refs says which files stand for remote schemas: the beginning of a URL to a path. A beginning
	// that ends in a slash stands for a directory.
	Refs map[string]string
	// Dialect is the dialect of schemas for which nothing else says one: 2020-12, which is also what empty
	// means, draft-07, or the URI of either.
	Dialect string
	// Overrides change schemas as they are read; nil means none. They come from [ReadOverrides].
	Overrides Overrides
}

// A TypeScript says where the TypeScript of a package goes.
type TypeScript struct {
	// Out is the output directory.
	Out string
	// Emit lists what is written beside events.ts: ai-sdk, client, webhook, schemas. See TS-2.
	Emit []string
}

// Place is the directory by which the package is known: Out, or that of the TypeScript where there is no Go.
func (r Request) Place() string {
	if r.Out == "" && r.TypeScript != nil {
		return r.TypeScript.Out
	}
	return r.Out
}

// A UsageError tells that a run was asked for in a way that cannot be done, whatever the event
// files say. The command exits with 2.
type UsageError struct{ Message string }

// Error returns the message.
func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Generate plans the package that r describes. The plan is nil when a diagnostic is an error or
// when an error is returned; nothing is written.
func Generate(ctx context.Context, r Request) (*Plan, []diagnostic.Diagnostic, error) {
	if r.Place() == "" {
		return nil, nil, usage("no output directory is given")
	}
	if r.Out == "" {
		r.Emit = []string{"types"} // of the other parts only Go has something
	}
	m, diags, err := modelOf(ctx, r)
	if m == nil {
		return nil, diags, err
	}
	plan := &Plan{models: []*modelled{m}}
	if r.Out != "" {
		found, err := plan.golang(r, m)
		if err != nil {
			return nil, diags, err
		}
		diags = append(diags, found...)
	}
	if r.TypeScript != nil {
		if err := plan.typescript(r, m); err != nil {
			return nil, diags, err
		}
	}
	plan.sort()
	return plan, source.Sort(diags), ctx.Err()
}

// golang plans the Go package.
func (p *Plan) golang(r Request, m *modelled) ([]source.Diagnostic, error) {
	home, err := locate(r.path(r.Out))
	if err != nil {
		return nil, err
	}
	files, err := golang.Emit(m.pkg, golang.Options{
		Server: m.emit["server"], Client: m.emit["client"], Tools: m.emit["tools"], Ingress: m.emit["ingress"],
		ImportPath: home.importPath,
		Source:     func(path string) string { return home.name(r.path(path)) },
	})
	if err != nil {
		return nil, err
	}
	present, err := readOutput(home.dir, func(name string) bool { return besides[name] != "" || filepath.Ext(name) == ".go" })
	if err != nil {
		return nil, err
	}
	err = p.compare(target{
		request: r, name: m.pkg.Name, out: r.Out, home: home, files: files, present: present, sources: m.sources(),
		ours: func(name string) bool { return ours(name, present[name], present) },
	})
	if err != nil {
		return nil, err
	}
	out := output{name: m.pkg.Name, dir: home.dir, shown: r.Out, base: home.base}
	for _, f := range r.Files {
		out.sources = append(out.sources, home.name(r.path(f)))
	}
	p.packages = append(p.packages, out)
	return strangers(r, home, m.pkg.Name, present), nil
}

// typescript plans the TypeScript (TS-1).
func (p *Plan) typescript(r Request, m *modelled) error {
	home, err := locate(r.path(r.TypeScript.Out))
	if err != nil {
		return err
	}
	options, err := json.Marshal(typescript.Options{Emit: r.TypeScript.Emit})
	if err != nil {
		return err
	}
	answer, err := typescript.Emit(plugin.Request{Version: model.Version, Options: options, Packages: []*model.Package{m.describe(home)}})
	if err != nil {
		return usage("typescript: %v", err)
	}
	files := map[string][]byte{}
	for _, f := range answer.Files {
		files[f.Path] = []byte(f.Text)
	}
	present, err := readOutput(home.dir, func(name string) bool { return filepath.Ext(name) == ".ts" })
	if err != nil {
		return err
	}
	return p.compare(target{
		request: r, name: m.pkg.Name, out: r.TypeScript.Out, home: home, files: files, present: present, sources: m.sources(),
		ours: func(name string) bool { return ours(name, present[name], nil) },
	})
}

// path returns p below the request's directory.
func (r Request) path(p string) string {
	if filepath.IsAbs(p) || r.Dir == "" {
		return p
	}
	return filepath.Join(r.Dir, p)
}

// A modelled package is what Generate and Inspect share.
type modelled struct {
	request Request
	set     *schema.Set
	pkg     *ir.Package
	emit    map[string]bool
}

// modelOf loads the event files and types them; nil when that is not possible.
func modelOf(ctx context.Context, r Request) (*modelled, []source.Diagnostic, error) {
	if len(r.Files) == 0 {
		return nil, nil, usage("no event file is given")
	}
	emit, err := emits(r.Emit)
	if err != nil {
		return nil, nil, err
	}
	formats := map[string]ir.GoType{}
	for format, name := range r.Types {
		if formats[format], err = ir.ParseGoType(name); err != nil {
			return nil, nil, usage("the Go type of format %s: %v", format, err)
		}
	}
	var failed error
	overrides, err := overridesOf(r.Overrides)
	if err != nil {
		return nil, nil, err
	}
	reading := schema.Options{Refs: r.Refs, Dialect: r.Dialect, Overrides: overrides.Below(r.Dir),
		Formats: slices.Sorted(maps.Keys(r.Types))}
	reading.ReadFile = func(p string) ([]byte, error) {
		if err := ctx.Err(); err != nil {
			failed = err
			return nil, err
		}
		return source.ReadFile(r.path(p))
	}
	set, diags := schema.Load(r.Files, reading)
	if failed != nil {
		return nil, nil, failed
	}
	if source.HasErrors(diags) {
		return nil, diags, nil
	}
	name, found, err := packageName(r, set)
	diags = append(diags, found...)
	if err != nil {
		return nil, diags, err
	}
	if r.Out != "" {
		if err := checkStems(set); err != nil {
			return nil, diags, err
		}
	}
	pkg, more := ir.Build(set, ir.Options{Package: name, Formats: formats, Tools: emit["tools"]})
	diags = source.Sort(append(diags, more...))
	if source.HasErrors(diags) {
		return nil, diags, nil
	}
	if emit["ingress"] && len(pkg.Ingress) == 0 {
		return nil, diags, usage("emit: ingress, and no event of package %s has from", name)
	}
	return &modelled{request: r, set: set, pkg: pkg, emit: emit}, diags, nil
}

func emits(words []string) (map[string]bool, error) {
	if len(words) == 0 {
		words = []string{"server", "client", "tools"}
	}
	set := map[string]bool{}
	for _, w := range words {
		switch w {
		case "server", "client", "tools", "ingress", "types":
			set[w] = true
		default:
			return nil, usage("emit knows server, client, tools, ingress and types, not %q", w)
		}
	}
	if set["ingress"] {
		set["server"] = true // whose emitters it uses
	}
	return set, nil
}

// packageName decides the Go package: the request, else the event files, else the directory.
func packageName(r Request, set *schema.Set) (string, []source.Diagnostic, error) {
	if r.Package != "" {
		if err := schema.CheckPackage(r.Package); err != nil {
			return "", nil, usage("%v", err)
		}
		return r.Package, nil, nil
	}
	var first *schema.File
	for _, f := range set.Files {
		switch {
		case f.Package == "" || !f.Given:
		case first == nil:
			first = f
		case first.Package != f.Package:
			d := source.New("MCPE301", packageRange(f), "%s asks for package %s, %s for package %s", f.Path, f.Package, first.Path, first.Package)
			return "", []source.Diagnostic{d.WithRelated(packageRange(first), "package %s is here", first.Package).WithHint("give --package")}, nil
		}
	}
	if first != nil {
		return first.Package, nil, nil
	}
	dir, err := filepath.Abs(r.path(r.Place()))
	if err != nil {
		return "", nil, err
	}
	if name := filepath.Base(dir); schema.CheckPackage(name) == nil {
		return name, nil, nil
	}
	if r.Out == "" {
		return "events", nil, nil // only plugins of Go ask for it
	}
	return "", nil, usage("the directory %s is not named like a Go package: give --package", r.Out)
}

func packageRange(f *schema.File) source.Range {
	if n := f.Root.Get("package"); n != nil {
		return n.Range
	}
	return source.InFile(f.Path)
}

// CheckStem refuses the event file at a path whose output go build would leave out, as that of ev_linux.yaml; stem is
// its name without the extension. The error is a [UsageError].
func CheckStem(path, stem string) error {
	if built(stem + golang.Suffix) {
		return nil
	}
	return usage("%s would be written to %s%s, which go build leaves out because of its name: rename the file", path, stem, golang.Suffix)
}

// checkStems refuses event files whose outputs would meet in one file, or in one that go build
// leaves out.
func checkStems(set *schema.Set) error {
	stems := map[string]*schema.File{}
	for _, f := range set.Files {
		key := strings.ToLower(f.Stem) // file systems may fold case
		if prev := stems[key]; prev != nil {
			return usage("%s and %s would both be written to %s%s: rename one", prev.Path, f.Path, f.Stem, golang.Suffix)
		}
		stems[key] = f
		if err := CheckStem(f.Path, f.Stem); err != nil {
			return err
		}
	}
	return nil
}

// built reports whether go build takes a file of this name on every platform.
func built(name string) bool {
	c := build.Default
	c.GOOS, c.GOARCH = "none", "none"
	c.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("package x\n")), nil }
	ok, err := c.MatchFile("", name)
	return ok && err == nil
}
