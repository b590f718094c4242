// Package gen generates typed Go and TypeScript from event files. It is used by the mcpe-gen command, the tests and the
// golden cases.
//
// [Generate] reads event files and returns a [Plan], which lists the files to create, update and delete in the output
// directory. A plan can be compared, printed, verified or applied. Every mode of `mcpe-gen generate` first creates a
// plan. [Inspect] returns the model instead.
//
// The kind of an error indicates its cause. A diagnostic of severity error is a problem in the event files, a
// [UsageError] is a problem in the arguments of the call, and any other error is an I/O failure.
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
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

// A Request describes a Go package to generate.
type Request struct {
	// Dir is the base directory for relative paths. If it is empty, the working directory is used.
	Dir string
	// Files lists the event files of the package. Out is the output directory. If Out is empty, Generate generates only
	// TypeScript, as specified by TypeScript.
	Files []string
	Out   string
	// ServerOut and ClientOut are the output directories of the code for servers and for clients. If one is empty, the
	// directory is below Out and has the name of the package, followed by "server" or "client". Otherwise, the base name
	// of the directory is the name of its package.
	ServerOut, ClientOut string
	// TypeScript describes the TypeScript to generate for the package. If it is nil, none is generated. See TS-1.
	TypeScript *TypeScript
	// Package is the name of the Go package. If it is empty, the `package` of the event files is used or, if the files
	// do not have a `package`, the base name of Out.
	Package string
	// Emit lists the code to generate in addition to the types: "server", "client", "tools" and "ingress". If the list is
	// empty, the first three are generated. If it contains only "types", nothing else is generated. "ingress" implies
	// "server". Read tools are part of the package for servers.
	Emit []string
	// Types maps a schema's format to the Go type of its values, such as
	// uuid → github.com/google/uuid.UUID.
	Types map[string]string
	// Imports maps schema files to import paths. Files must refer to each schema file. The import path is the path of
	// the Go package for the schema file. The generated package declares aliases for the types of that package, so the
	// types of both packages are identical.
	Imports map[string]string
	// Refs maps URL prefixes of remote schemas to local paths. If a prefix ends in a slash, the path is a directory.
	Refs map[string]string
	// Dialect is the dialect of schemas that do not declare one. It is 2020-12 (the default), draft-07, or the URI of
	// either.
	Dialect string
	// Overrides change schemas as they are read. It may be nil. [ReadOverrides] returns overrides.
	Overrides Overrides
}

// A TypeScript describes the TypeScript output of a package.
type TypeScript struct {
	// Out is the output directory.
	Out string
	// Emit lists the parts to generate in addition to events.ts: ai-sdk, client, webhook, schemas. See TS-2.
	Emit []string
}

// Place returns the directory that identifies the package: Out, or the TypeScript directory if Out is empty.
func (r Request) Place() string {
	if r.Out == "" && r.TypeScript != nil {
		return r.TypeScript.Out
	}
	return r.Out
}

// A UsageError reports a call with invalid arguments. It does not depend on the content of the event files. For this
// error, the command exits with status 2.
type UsageError struct {
	Message string
	// Key and Entry locate the fault in the configuration, such as types and uuid. They are empty for other faults.
	Key, Entry string
}

// Error returns the message.
func (e *UsageError) Error() string { return e.Message }

func usage(format string, args ...any) error { return usageOf("", "", format, args...) }

// usageOf returns a usage error about an entry of the configuration.
func usageOf(key, entry, format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...), key, entry}
}

// Generate returns the plan for the package that r describes. It does not write any files. The plan is nil if a
// diagnostic has severity error or the returned error is not nil.
func Generate(ctx context.Context, r Request) (*Plan, []diagnostic.Diagnostic, error) {
	if r.Place() == "" {
		return nil, nil, usage("no output directory is given")
	}
	if r.Out == "" {
		r.Emit = []string{"types"} // the other parts exist only for Go
	}
	m, diags, err := loadPackage(ctx, r)
	if m == nil {
		return nil, diags, err
	}
	plan := &Plan{models: []*loadedPackage{m}}
	if r.Out != "" {
		found, err := plan.planGo(r, m)
		if err != nil {
			return nil, diags, err
		}
		diags = append(diags, found...)
	}
	if r.TypeScript != nil {
		if err := plan.planTypeScript(r, m); err != nil {
			return nil, diags, err
		}
	}
	if plan, err = Merge(plan); err == nil {
		err = ctx.Err()
	}
	return plan, source.Sort(diags), err
}

// planGo adds the Go packages to the plan.
func (p *Plan) planGo(r Request, m *loadedPackage) ([]source.Diagnostic, error) {
	options := golang.Options{Server: m.emit["server"], Client: m.emit["client"], Tools: m.emit["tools"], Ingress: m.emit["ingress"]}
	outs, err := r.outputs(m.pkg.Name)
	if err != nil {
		return nil, err
	}
	var homes [3]location
	for _, part := range golang.Parts {
		if homes[part], err = locate(r.path(outs[part].shown)); err != nil {
			return nil, err
		}
		outs[part].dir, outs[part].base = homes[part].dir, homes[part].base
		options.Places[part] = golang.Place{Name: outs[part].name, ImportPath: homes[part].importPath}
		if part != golang.Types && homes[golang.Types].importPath == "" && options.Has(part, m.pkg) {
			return nil, usage("package %s imports package %s, but %s is not in a Go module: run go mod init first, or emit only types", outs[part].name, m.pkg.Name, r.Out)
		}
	}
	options.Source = func(path string) string { return homes[golang.Types].sourceName(r.path(path)) }
	files, err := golang.Emit(m.pkg, options)
	if err != nil {
		return nil, err
	}
	var diags []source.Diagnostic
	for _, part := range golang.Parts {
		if files[part] == nil {
			continue
		}
		home := homes[part]
		home.base = homes[golang.Types].base // of the names in headers
		found, err := p.planPackage(r, m, outs[part], home, files[part])
		if err != nil {
			return nil, err
		}
		diags = append(diags, found...)
	}
	return diags, nil
}

// outputs returns the names and directories of the Go packages by part.
func (r Request) outputs(name string) (outs [3]output, err error) {
	outs = [3]output{
		golang.Types:  {name: name, shown: r.Out, named: true},
		golang.Server: {name: name + config.ServerSuffix, shown: r.ServerOut},
		golang.Client: {name: name + config.ClientSuffix, shown: r.ClientOut},
	}
	for _, part := range golang.Parts[1:] {
		o := &outs[part]
		if o.shown == "" {
			o.shown = filepath.Join(r.Out, o.name)
			continue
		}
		if o.name, err = directoryName(r.path(o.shown)); err != nil {
			return outs, err
		}
		if schema.CheckPackage(o.name) != nil {
			return outs, usage("the name of directory %s is not a valid Go package name: choose another directory", o.shown)
		}
	}
	return outs, nil
}

// planPackage adds a Go package to the plan.
func (p *Plan) planPackage(r Request, m *loadedPackage, out output, home location, files map[string][]byte) ([]source.Diagnostic, error) {
	present, err := readOutput(home.dir, func(name string) bool { return markers[name] != "" || filepath.Ext(name) == ".go" })
	if err != nil {
		return nil, err
	}
	err = p.compare(target{
		name: out.name, out: out.shown, home: home, files: files, present: present, sources: m.sources(),
		isGenerated: func(name string) bool { return isGenerated(name, present[name], present) },
	})
	if err != nil {
		return nil, err
	}
	p.packages = append(p.packages, out)
	return foreignFiles(out, present), nil
}

// planTypeScript adds the TypeScript output to the plan (TS-1).
func (p *Plan) planTypeScript(r Request, m *loadedPackage) error {
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
		name: m.pkg.Name, out: r.TypeScript.Out, home: home, files: files, present: present, sources: m.sources(),
		isGenerated: func(name string) bool { return isGenerated(name, present[name], nil) },
	})
}

// path resolves p relative to the request's directory.
func (r Request) path(p string) string {
	if filepath.IsAbs(p) || r.Dir == "" {
		return p
	}
	return filepath.Join(r.Dir, p)
}

// A loadedPackage is the input for Generate and Inspect after loading.
type loadedPackage struct {
	request Request
	pkg     *ir.Package
	emit    map[string]bool
}

// loadPackage loads the event files and builds their types. The result is nil if an error occurs or a diagnostic is an
// error.
func loadPackage(ctx context.Context, r Request) (*loadedPackage, []source.Diagnostic, error) {
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
			return nil, nil, usageOf("types", format, "the Go type of format %s: %v", format, err)
		}
	}
	var failed error
	cfg, err := configOf(r.Overrides)
	if err != nil {
		return nil, nil, err
	}
	reading := schema.Options{Refs: r.Refs, Dialect: r.Dialect, Overrides: cfg.Overrides.Below(r.Dir),
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
	cfg.Record(r.Dir, set)
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
	unimportable, err := r.importChecker(name)
	if err != nil {
		return nil, diags, err
	}
	pkg, more := ir.Build(set, ir.Options{Package: name, Formats: formats, Unimportable: unimportable, Tools: emit["tools"], Imports: imports})
	diags = source.Sort(append(diags, more...))
	if source.HasErrors(diags) {
		return nil, diags, nil
	}
	if emit["ingress"] && len(pkg.Ingress) == 0 {
		return nil, diags, usage("emit lists ingress, but no event of package %s has `from`; add one or remove ingress", name)
	}
	return &loadedPackage{request: r, pkg: pkg, emit: emit}, diags, nil
}

// importsOf maps files of set to the import path of the package that declares their types.
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
			return nil, usageOf("import", name, "import of %s: %s is the output package", name, home.importPath)
		case i < 0:
			return nil, usageOf("import", name, "import of %s: no $ref of the package refers to the file", name)
		case set.Files[i].Given:
			return nil, usageOf("import", name, "import of %s: the file is an event file of the output package", name)
		case len(set.Files[i].Events)+len(set.Files[i].Tasks) > 0 || set.Files[i].Conversation != nil:
			return nil, usageOf("import", name, "import of %s: the file contains more than schemas; move the shared schemas to a separate file", name)
		}
		imports[set.Files[i]] = r.Imports[name]
	}
	return imports, nil
}

// sameFile reports whether two paths refer to the same file. It does not resolve symbolic links.
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
		if !slices.Contains(config.Emits, w) {
			return nil, usage("unknown value %q of emit; use one of %s", w, strings.Join(config.Emits, ", "))
		}
		set[w] = true
	}
	if set["ingress"] {
		set["server"] = true // ingress uses the emitters of the server
	}
	return set, nil
}

// packageName returns the name of the Go package from the request, the event files or the directory, in this order of
// precedence.
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
	name, err := directoryName(r.path(r.Place()))
	if err != nil {
		return "", nil, err
	}
	if schema.CheckPackage(name) == nil {
		return name, nil, nil
	}
	if r.Out == "" {
		return "events", nil, nil // only Go plugins use the name
	}
	return "", nil, usage("the name of directory %s is not a valid Go package name: pass --package", r.Out)
}

// directoryName returns the base name of a directory.
func directoryName(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	return filepath.Base(abs), err
}

func packageRange(f *schema.File) source.Range {
	if n := f.Root.Get("package"); n != nil {
		return n.Range
	}
	return source.InFile(f.Path)
}

// CheckStem returns a [UsageError] if go build would ignore the output of the event file at path. An example is the
// output of ev_linux.yaml. The stem is the base name without the extension.
func CheckStem(path, stem string) error {
	if isAlwaysCompiled(stem + golang.Suffix) {
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

// isAlwaysCompiled reports whether go build compiles a file with this name on all platforms.
func isAlwaysCompiled(name string) bool {
	c := build.Default
	c.GOOS, c.GOARCH = "none", "none"
	c.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("package x\n")), nil }
	ok, err := c.MatchFile("", name)
	return ok && err == nil
}
