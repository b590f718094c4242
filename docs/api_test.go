package docs_test

import (
	"fmt"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// TestPromisedAPI holds the API of the promised packages (docs/versioning.md) to types that are
// promised too: what a user can reach from an exported name must not come from a package that
// promises nothing, from an internal one, or from a module that has no release. A promise that
// hangs on another's unpromised type is none.
func TestPromisedAPI(t *testing.T) {
	promised := promisedPackages(t)
	for _, l := range leaks(t, "..", promised) {
		t.Errorf("%s reaches %s, %s", l.name, l.reached, l.why)
	}
}

// TestLeaksAreFound holds the walk itself: each exported name of testdata/leaks whose name begins
// with Leak has a way of its own to a type that is not promised, and no other name has one.
func TestLeaksAreFound(t *testing.T) {
	found := map[string]bool{}
	for _, l := range leaks(t, "testdata/leaks", []string{"api", "other"}) {
		found[l.name] = true
	}
	var want []string
	for _, p := range load(t, "testdata/leaks") {
		for _, name := range p.Types.Scope().Names() {
			if strings.HasPrefix(name, "Leak") {
				want = append(want, p.Types.Name()+"."+name)
			}
		}
	}
	for name := range found {
		if i := strings.Index(name, ".Leak"); i < 0 {
			t.Errorf("%s is reported, though it reaches nothing unpromised", name)
		}
	}
	for _, name := range want {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(f string) bool {
			return f == name || strings.HasPrefix(f, name+".")
		}) {
			t.Errorf("%s is not reported", name)
		}
	}
	if len(want) < 15 {
		t.Errorf("testdata/leaks has %d ways to leak", len(want))
	}
}

var quoted = regexp.MustCompile("`((?:runtime|gen)[a-z0-9/]*)`")

// promisedPackages returns the packages that the table of docs/versioning.md promises, relative to
// the module.
func promisedPackages(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("versioning.md")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cell, _, _ := strings.Cut(line[2:], "|")
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			found = append(found, m[1])
		}
	}
	if len(found) < 10 {
		t.Fatalf("versioning.md promises %q only", found)
	}
	return found
}

// A leak is a way from an exported name to a type of a package that is not promised.
type leak struct {
	name, reached, why string
}

// load returns the packages of the module in dir, with types.
func load(t *testing.T, dir string) []*packages.Package {
	t.Helper()
	if testing.Short() {
		t.Skip("loads all packages with their types")
	}
	loaded, err := packages.Load(&packages.Config{
		Dir: dir,
		Mode: packages.NeedName | packages.NeedImports | packages.NeedDeps | packages.NeedTypes |
			packages.NeedModule | packages.NeedExportFile,
	}, "./...")
	if err != nil {
		t.Fatal(err)
	}
	if n := packages.PrintErrors(loaded); n > 0 {
		t.Fatalf("%d packages do not load", n)
	}
	return loaded
}

// leaks walks the exported API of the promised packages of the module in dir.
func leaks(t *testing.T, dir string, promised []string) []leak {
	t.Helper()
	loaded := load(t, dir)
	w := &walk{modules: map[string]*packages.Module{}, promised: map[string]bool{}}
	packages.Visit(loaded, func(p *packages.Package) bool {
		w.modules[p.PkgPath] = p.Module
		return true
	}, nil)
	main := loaded[0].Module.Path
	for _, name := range promised {
		w.promised[main+"/"+name] = true
	}
	w.main = main
	seen := map[string]bool{}
	for _, p := range loaded {
		if !w.promised[p.PkgPath] {
			continue
		}
		seen[p.PkgPath] = true
		w.pkg(p.Types)
	}
	for path := range w.promised {
		if !seen[path] {
			t.Errorf("%s is promised, and there is no such package", path)
		}
	}
	slices.SortFunc(w.found, func(a, b leak) int { return strings.Compare(a.name+a.reached, b.name+b.reached) })
	return slices.Compact(w.found)
}

// A walk follows what exported names reach.
type walk struct {
	main     string
	modules  map[string]*packages.Module // by package path; nil for the standard library
	promised map[string]bool
	pkgPath  string // the package that is walked
	name     string // the exported name that is followed
	seen     map[types.Type]bool
	found    []leak
}

func (w *walk) begin(name string) {
	w.name = name
	w.seen = map[types.Type]bool{}
}

func (w *walk) pkg(p *types.Package) {
	w.pkgPath = p.Path()
	scope := p.Scope()
	for _, name := range scope.Names() {
		obj := scope.Lookup(name)
		if !obj.Exported() {
			continue
		}
		qualified := p.Name() + "." + name
		w.begin(qualified)
		tn, ok := obj.(*types.TypeName)
		if !ok {
			w.reach(obj.Type())
			continue
		}
		switch typ := tn.Type().(type) {
		case *types.Alias:
			w.params(typ.TypeParams())
			w.reach(typ.Rhs())
		case *types.Named:
			w.seen[typ] = true
			w.definition(typ, qualified)
		}
	}
}

// definition follows what a type of a promised package shows: constraints, exported and embedded
// fields, and the exported methods. The name of a top-level type grows by that of a method.
func (w *walk) definition(n *types.Named, top string) {
	w.params(n.TypeParams())
	w.reach(n.Underlying())
	set := types.NewMethodSet(types.NewPointer(n))
	if types.IsInterface(n) {
		return // its methods are in the underlying type
	}
	for i := range set.Len() {
		m := set.At(i).Obj()
		if !m.Exported() {
			continue
		}
		if top != "" {
			w.begin(top + "." + m.Name())
			w.seen[n] = true
		}
		w.reach(set.At(i).Type())
	}
}

func (w *walk) params(list *types.TypeParamList) {
	for i := range list.Len() {
		w.reach(list.At(i).Constraint())
	}
}

// reach follows a type to the named ones that it is made of.
func (w *walk) reach(t types.Type) {
	if t == nil || w.seen[t] {
		return
	}
	w.seen[t] = true
	switch t := t.(type) {
	case *types.Alias:
		if w.refused(t.Obj()) {
			return
		}
		w.args(t.TypeArgs())
		w.reach(t.Rhs())
	case *types.Named:
		w.args(t.TypeArgs())
		if w.refused(t.Obj()) || t.Obj().Pkg() == nil || !w.promised[t.Obj().Pkg().Path()] {
			return
		}
		if !t.Obj().Exported() { // reachable though it cannot be named
			w.definition(t.Origin(), "")
		}
	case *types.TypeParam:
		w.reach(t.Constraint())
	case *types.Pointer:
		w.reach(t.Elem())
	case *types.Slice:
		w.reach(t.Elem())
	case *types.Array:
		w.reach(t.Elem())
	case *types.Chan:
		w.reach(t.Elem())
	case *types.Map:
		w.reach(t.Key())
		w.reach(t.Elem())
	case *types.Signature:
		w.params(t.TypeParams())
		w.reach(t.Params())
		w.reach(t.Results())
	case *types.Tuple:
		for i := range t.Len() {
			w.reach(t.At(i).Type())
		}
	case *types.Struct:
		for i := range t.NumFields() {
			if f := t.Field(i); f.Exported() || f.Embedded() { // what is embedded is promoted
				w.reach(f.Type())
			}
		}
	case *types.Interface:
		for i := range t.NumEmbeddeds() {
			w.reach(t.EmbeddedType(i))
		}
		for i := range t.NumExplicitMethods() {
			if m := t.ExplicitMethod(i); m.Exported() {
				w.reach(m.Type())
			}
		}
	case *types.Union:
		for i := range t.Len() {
			w.reach(t.Term(i).Type())
		}
	}
}

func (w *walk) args(list *types.TypeList) {
	for i := range list.Len() {
		w.reach(list.At(i))
	}
}

// engine reports whether a type is the runtime's business with a store or a part (docs/versioning.md): what the
// methods of a store take and return for it, and the interfaces by which an option takes a store or a part,
// which authors pass on as they got it.
func (w *walk) engine(obj *types.TypeName) bool {
	if obj.Pkg().Path() == w.main+"/runtime/internal/part" && obj.Name() == "Part" {
		return true
	}
	return obj.Pkg().Path() == w.main+"/runtime/store/engine" &&
		(types.IsInterface(obj.Type()) || strings.HasPrefix(w.pkgPath, w.main+"/runtime/store/"))
}

// refused notes a leak if the package of obj is not promised.
func (w *walk) refused(obj *types.TypeName) bool {
	if obj.Pkg() == nil {
		return false
	}
	path := obj.Pkg().Path()
	m := w.modules[path]
	why := ""
	switch {
	case m == nil: // the standard library
		if path == "internal" || strings.HasPrefix(path, "internal/") {
			why = "which is internal to the standard library"
		}
	case m.Path == w.main:
		if !w.promised[path] && !w.engine(obj) {
			why = "of a package that promises nothing"
		}
	case module.IsPseudoVersion(m.Version) || semver.Prerelease(m.Version) != "":
		why = fmt.Sprintf("of a module without a release (%s)", m.Version)
	}
	if why == "" {
		return false
	}
	w.found = append(w.found, leak{w.name, strings.TrimPrefix(path, w.main+"/") + "." + obj.Name(), why})
	return true
}
