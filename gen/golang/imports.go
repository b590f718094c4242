package golang

import (
	"go/token"
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// imports are those of one file: what it refers to by qualified names, each package under a name of its own.
type imports struct {
	// own is the path of the package that is generated, which needs no import.
	own string
	// names are the names by path, "_" where only the import itself is wanted.
	names map[string]string
	// shown are the names that the import block gives, because the paths do not say them.
	shown map[string]bool
}

func newImports(own string) *imports {
	return &imports{own: own, names: map[string]string{}, shown: map[string]bool{}}
}

// embed imports a package for what its import does.
func (i *imports) embed(path string) { i.names[path], i.shown[path] = "_", true }

// qualified is how code refers to a name of a package.
func (i *imports) qualified(path, name string) string {
	if path == i.own {
		return name
	}
	if as := i.names[path]; as != "" && as != "_" {
		return as + "." + name
	}
	as, shown := importNames[path], false
	switch {
	case as != "":
	case standardLibrary(path):
		as = lastElement(path)
	default: // the name of the package is not known
		as, shown = guessed(path), true
	}
	unique := as
	for n := 1; i.taken(unique); n++ {
		unique, shown = as+strconv.Itoa(n), true
	}
	i.names[path], i.shown[path] = unique, shown
	return unique + "." + name
}

// taken reports whether a package cannot have the name: another has it, or it means something in generated code.
func (i *imports) taken(name string) bool {
	if token.IsKeyword(name) || types.Universe.Lookup(name) != nil || name == "err" {
		return true
	}
	for _, n := range i.names {
		if n == name {
			return true
		}
	}
	return false
}

// block is the import declaration, the standard library's in a group of their own as goimports does it.
func (i *imports) block() string {
	spec := func(path string) string {
		if i.shown[path] {
			return i.names[path] + " " + strconv.Quote(path)
		}
		return strconv.Quote(path)
	}
	paths := slices.Sorted(maps.Keys(i.names))
	switch len(paths) {
	case 0:
		return ""
	case 1:
		return "import " + spec(paths[0]) + "\n\n"
	}
	var out strings.Builder
	out.WriteString("import (\n")
	for _, standard := range []bool{true, false} {
		for _, path := range paths {
			if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") != standard {
				out.WriteString(spec(path) + "\n")
			}
		}
		out.WriteByte('\n')
	}
	out.WriteString(")\n\n")
	return out.String()
}

// standardTops are the first elements of the standard library's paths. Other packages may have paths without a dot
// too, but hardly these.
var standardTops = strings.Fields("archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar " +
	"flag fmt go hash html image index io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings " +
	"structs sync syscall testing text time unicode unique unsafe weak")

func standardLibrary(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return slices.Contains(standardTops, first)
}

var (
	version    = regexp.MustCompile(`/v[0-9]+$`)
	notOfAName = regexp.MustCompile(`^[0-9]+|[^a-z0-9]`)
)

// lastElement is the last element of a path that is no version, such as rand of math/rand/v2.
func lastElement(path string) string {
	path = version.ReplaceAllString(path, "")
	return path[strings.LastIndexByte(path, '/')+1:]
}

// guessed is a name for a package of which only the path is known.
func guessed(path string) string {
	path = strings.TrimSuffix(path, "/")
	name := notOfAName.ReplaceAllString(strings.ToLower(path[strings.LastIndexByte(path, '/')+1:]), "")
	if name == "" {
		return "pkg"
	}
	return name
}
