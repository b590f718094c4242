// Package gen generates typed Go from event files. It is what the command mcpe-gen, the tests and
// the golden cases call.
//
// [Generate] reads event files and returns a [Plan]: which files of the output directory are to be
// created, updated and deleted. A plan is compared, shown, verified or applied; everything that
// the flags of `mcpe-gen generate` do starts from it. [Inspect] returns the model instead.
//
// What goes wrong is told apart by where it has to be fixed: diagnostics of severity error are
// about the event files, a [UsageError] is about how the run was asked for, any other error is a
// failure to read or write.
package gen

import (
	"context"
	"fmt"
	"go/build"
	"go/token"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A Request describes one Go package to generate.
type Request struct {
	// Dir is the directory that relative paths start from; empty means the working directory.
	Dir string
	// Files are the event files of the package, Out is its directory.
	Files []string
	Out   string
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

// A UsageError tells that a run was asked for in a way that cannot be done, whatever the event
// files say. The command exits with 2.
type UsageError struct{ Message string }

// Error returns the message.
func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Generate plans the package that r describes. The plan is nil when a diagnostic is an error or
// when an error is returned; nothing is written.
func Generate(ctx context.Context, r Request) (*Plan, []diagnostic.Diagnostic, error) {
	if r.Out == "" {
		return nil, nil, usage("no output directory is given")
	}
	m, diags, err := model(ctx, r)
	if m == nil {
		return nil, diags, err
	}
	home, err := locate(r.path(r.Out))
	if err != nil {
		return nil, diags, err
	}
	files, err := golang.Emit(m.pkg, golang.Options{
		Server: m.emit["server"], Client: m.emit["client"], Tools: m.emit["tools"], Ingress: m.emit["ingress"],
		ImportPath: home.importPath,
		Source:     func(path string) string { return home.name(r.path(path)) },
	})
	if err != nil {
		return nil, diags, err
	}
	plan, found, err := makePlan(r, m.pkg, home, files)
	if err != nil {
		return nil, diags, err
	}
	return plan, source.Sort(append(diags, found...)), ctx.Err()
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
	set  *schema.Set
	pkg  *ir.Package
	emit map[string]bool
}

// model loads the event files and types them; nil when that is not possible.
func model(ctx context.Context, r Request) (*modelled, []source.Diagnostic, error) {
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
	if err := checkStems(set); err != nil {
		return nil, diags, err
	}
	pkg, more := ir.Build(set, ir.Options{Package: name, Formats: formats, Tools: emit["tools"]})
	diags = source.Sort(append(diags, more...))
	if source.HasErrors(diags) {
		return nil, diags, nil
	}
	if emit["ingress"] && len(pkg.Ingress) == 0 {
		return nil, diags, usage("emit: ingress, and no event of package %s has from", name)
	}
	return &modelled{set: set, pkg: pkg, emit: emit}, diags, nil
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
		if !validPackage(r.Package) {
			return "", nil, usage("%q is not a Go package name", r.Package)
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
	dir, err := filepath.Abs(r.path(r.Out))
	if err != nil {
		return "", nil, err
	}
	if name := filepath.Base(dir); validPackage(name) {
		return name, nil, nil
	}
	return "", nil, usage("the directory %s is not named like a Go package: give --package", r.Out)
}

func packageRange(f *schema.File) source.Range {
	if n := f.Root.Get("package"); n != nil {
		return n.Range
	}
	return source.InFile(f.Path)
}

func validPackage(name string) bool { return token.IsIdentifier(name) && name != "_" }

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
		if !built(f.Stem + golang.Suffix) {
			return usage("%s would be written to %s%s, which go build leaves out because of its name: rename the file", f.Path, f.Stem, golang.Suffix)
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
