package adopt

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strconv"
)

// The packages that the lines use, besides the generated ones.
const (
	serverPath    = RuntimePath + "/runtime/server"
	webhooksPath  = serverPath + "/webhooks"
	replicasPath  = serverPath + "/replicas"
	operatorsPath = serverPath + "/operators"
	telemetryPath = RuntimePath + "/runtime/otelevents"
	transportPath = RuntimePath + "/runtime/transport"
	ingressPath   = RuntimePath + "/runtime/ingress"
	overlayPath   = RuntimePath + "/runtime/overlay"
)

// loggers are the packages whose Fatal prints an error and ends the process.
var loggers = []string{"log", "github.com/sirupsen/logrus"}

// A scope chooses names for lines in one declaration of a file. They do not shadow other names.
type scope struct {
	file  *file
	taken map[string]bool
	// packages are the names of imports by their path. The lines may need them all, so no variable gets these names.
	packages map[string]string
	// imports are the specs that the file lacks for the packages used so far.
	imports []string
}

// newScope returns the scope of a declaration of a file in a module.
func (w Wiring) newScope(dir string, f *file, declaration ast.Node) *scope {
	s := &scope{file: f, taken: map[string]bool{}, packages: map[string]string{}}
	local := map[string]bool{}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			s.taken[id.Name] = true
			if id.Obj != nil && declaration != nil && contains(declaration, id) {
				local[id.Name] = true
			}
		}
		return true
	})
	for _, spec := range f.syntax.Imports {
		s.taken[nameOf(spec)] = true
	}
	// An import must not have the name of a declaration in another file of the package.
	others, _ := filepath.Glob(filepath.Join(dir, filepath.FromSlash(path.Dir(f.path)), "*.go"))
	for _, other := range others {
		if syntax, _ := parser.ParseFile(token.NewFileSet(), other, nil, 0); syntax != nil && syntax.Scope != nil {
			for name := range syntax.Scope.Objects {
				s.taken[name] = true
			}
		}
	}
	for _, of := range append([]string{serverPath, webhooksPath, replicasPath, operatorsPath, telemetryPath, transportPath, ingressPath, overlayPath, sdkPath, w.Import, w.Setup, "context", "fmt", httpPath, "os", "time"}, loggers...) {
		name := importName(f.syntax, of)
		if name == "" || name == "_" || name == "." || local[name] {
			name = s.free(path.Base(of), "event"+path.Base(of))
		}
		s.packages[of] = name
	}
	return s
}

// free returns the first of the candidates that is free, or the first one with a number, and takes it.
func (s *scope) free(candidates ...string) string {
	first := candidates[0]
	for i := 2; ; i++ {
		for _, c := range candidates {
			if !s.taken[c] && !token.IsKeyword(c) && types.Universe.Lookup(c) == nil {
				s.taken[c] = true
				return c
			}
		}
		candidates = []string{fmt.Sprint(first, i)}
	}
}

// use returns the name of a package for the lines, and notes its import if the file lacks it.
func (s *scope) use(of string) string {
	name, spec := s.packages[of], strconv.Quote(of)
	if name != path.Base(of) {
		spec = name + " " + spec
	}
	if importName(s.file.syntax, of) != name && !slices.Contains(s.imports, spec) {
		s.imports = append(s.imports, spec)
	}
	return name
}

// exit returns the lines that print an error and end the process.
func (s *scope) exit(err string) []string {
	for _, of := range loggers {
		if name := importName(s.file.syntax, of); name != "" && name == s.packages[of] {
			return []string{name + ".Fatal(" + err + ")"}
		}
	}
	if s.packages["log"] == "log" {
		return []string{s.use("log") + ".Fatal(" + err + ")"}
	}
	return []string{fmt.Sprintf("%s.Fprintln(%s.Stderr, %s)", s.use("fmt"), s.use("os"), err), s.use("os") + ".Exit(1)"}
}
