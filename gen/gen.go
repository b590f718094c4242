// Package gen generates typed Go and TypeScript from event files. The mcpe-gen command, the tests and the golden
// cases call it.
//
// [Generate] reads event files and returns a [Plan], which lists the files to create, update and delete in the output
// directory. A plan can be compared, printed, verified or applied; every mode of `mcpe-gen generate` starts with a
// plan. [Inspect] returns the model instead.
//
// The kind of an error says what to fix. Diagnostics of severity error concern the event files, a [UsageError]
// concerns the arguments of the call, and any other error is a failure to read or write.
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
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

// A Request describes one Go package to generate.
type Request struct {
	// Dir is the directory that relative paths start from; empty means the working directory.
	Dir string
	// Files lists the event files of the package, and Out is its output directory. If Out is empty, Generate writes no
	// Go, only the TypeScript that TypeScript requests.
	Files []string
	Out   string
	// TypeScript requests TypeScript for the package; nil means none. See TS-1.
	TypeScript *TypeScript
	// Package is the name of the Go package. If it is empty, the `package` of the event files is used, and otherwise
	// the base name of Out.
	Package string
	// Emit lists the parts to write in addition to the types. The parts are "server", "client", "tools" and "ingress".
	// An empty list means the first three, "types" by itself means none, and "ingress" implies "server".
	Emit []string
	// Types maps a schema's format to the Go type of its values, such as
	// uuid → github.com/google/uuid.UUID.
	Types map[string]string
	// Imports maps a schema file that Files refer to, to the import path of the Go package for it. The generated
	// package declares aliases for the types of that package, so values of both packages have identical types.
	Imports map[string]string
	// Refs maps URL prefixes of remote schemas to local paths. A prefix that ends in a slash stands for a directory.
	Refs map[string]string
	// Dialect is the dialect of schemas that do not declare one. It is 2020-12 (the default), draft-07, or the URI of
	// either.
	Dialect string
	// Overrides change schemas as they are read; nil means none. [ReadOverrides] returns them.
	Overrides Overrides
}

// A TypeScript describes the TypeScript output of a package.
type TypeScript struct {
	// Out is the output directory.
	Out string
	// Emit lists the parts to write in addition to events.ts: ai-sdk, client, webhook, schemas. See TS-2.
	Emit []string
}

// Place returns the directory that identifies the package: Out, or the TypeScript directory if Out is empty.
func (r Request) Place() string {
	if r.Out == "" && r.TypeScript != nil {
		return r.TypeScript.Out
	}
	return r.Out
}

// A UsageError reports a call with invalid arguments. The content of the event files does not matter. The command
// exits with status 2.
type UsageError struct{ Message string }

// Error returns the message.
func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Generate plans the package that r describes and writes nothing. The plan is nil if a diagnostic has severity error
// or the returned error is not nil.
func Generate(ctx context.Context, r Request) (*Plan, []diagnostic.Diagnostic, error) {
	if r.Place() == "" {
		return nil, nil, usage("no output directory is given")
	}
	if r.Out == "" {
		r.Emit = []string{"types"} // the other parts exist only for Go
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
	p.packages = append(p.packages, output{name: m.pkg.Name, dir: home.dir, shown: r.Out, base: home.base})
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

// A modelled package is the loaded input that Generate and Inspect share.
type modelled struct {
	request Request
	set     *schema.Set
	pkg     *ir.Package
	emit    map[string]bool
}

// modelOf loads the event files and builds their types. The result is nil if that fails or a diagnostic is an error.
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
	imports, err := importsOf(r, set)
	if err != nil {
		return nil, diags, err
	}
	importable, err := r.importable()
	if err != nil {
		return nil, diags, err
	}
	pkg, more := ir.Build(set, ir.Options{Package: name, Formats: formats, Importable: importable, Tools: emit["tools"], Imports: imports})
	diags = source.Sort(append(diags, more...))
	if source.HasErrors(diags) {
		return nil, diags, nil
	}
	if emit["ingress"] && len(pkg.Ingress) == 0 {
		return nil, diags, usage("emit lists ingress, but no event of package %s has `from`; add one or remove ingress", name)
	}
	return &modelled{request: r, set: set, pkg: pkg, emit: emit}, diags, nil
}

// importsOf maps the files of set whose types live in another package to the import path of that package.
func importsOf(r Request, set *schema.Set) (map[*schema.File]string, error) {
	if len(r.Imports) == 0 {
		return nil, nil
	}
	home, err := locate(r.path(r.Out))
	if err != nil {
		return nil, err
	}
	imports := make(map[*schema.File]string, len(r.Imports))
	for _, name := range slices.Sorted(maps.Keys(r.Imports)) {
		i := slices.IndexFunc(set.Files, func(f *schema.File) bool { return sameFile(r.path(f.Path), r.path(name)) })
		switch {
		case r.Imports[name] == home.importPath:
			return nil, usage("import of %s: %s is the output package", name, home.importPath)
		case i < 0:
			return nil, usage("import of %s: no $ref of the package refers to the file", name)
		case set.Files[i].Given:
			return nil, usage("import of %s: the file is an event file of the output package", name)
		case len(set.Files[i].Events)+len(set.Files[i].Tasks) > 0 || set.Files[i].Conversation != nil:
			return nil, usage("import of %s: the file contains more than schemas; move the shared schemas to a separate file", name)
		}
		imports[set.Files[i]] = r.Imports[name]
	}
	return imports, nil
}

// sameFile reports whether two paths name the same file once they are absolute and clean.
func sameFile(a, b string) bool {
	a, errA := filepath.Abs(a)
	b, errB := filepath.Abs(b)
	return errA == nil && errB == nil && a == b
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
			return nil, usage("unknown value %q of emit; use server, client, tools, ingress or types", w)
		}
	}
	if set["ingress"] {
		set["server"] = true // ingress uses the emitters of the server
	}
	return set, nil
}

// packageName returns the name of the Go package, taken from the request, the event files or the directory, in this
// order.
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
			d := source.New("MCPE301", packageRange(f), "%s declares package %s, but %s declares package %s", f.Path, f.Package, first.Path, first.Package)
			return "", []source.Diagnostic{d.WithRelated(packageRange(first), "package %s is here", first.Package).WithHint("pass --package")}, nil
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
		return "events", nil, nil // only Go plugins use the name
	}
	return "", nil, usage("the name of directory %s is not a valid Go package name: pass --package", r.Out)
}

func packageRange(f *schema.File) source.Range {
	if n := f.Root.Get("package"); n != nil {
		return n.Range
	}
	return source.InFile(f.Path)
}

// CheckStem returns a [UsageError] if go build would ignore the output of the event file at path. The output of
// ev_linux.yaml is an example. The stem is the base name without the extension.
func CheckStem(path, stem string) error {
	if built(stem + golang.Suffix) {
		return nil
	}
	return usage("%s would be written to %s%s, which go build leaves out because of its name: rename the file", path, stem, golang.Suffix)
}

// checkStems returns an error if two event files have the same output, or if go build would ignore an output.
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

// built reports whether go build compiles a file with this name on every platform.
func built(name string) bool {
	c := build.Default
	c.GOOS, c.GOARCH = "none", "none"
	c.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("package x\n")), nil }
	ok, err := c.MatchFile("", name)
	return ok && err == nil
}
