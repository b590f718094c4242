package gen_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// promised are the packages whose compatibility is promised: what authors and generated code import.
// Those below them, such as runtime/store/sqlite, are promised unless they say that they are not.
var promised = map[string]bool{
	"gen": true, "runtime/events": true, "runtime/server": true, "runtime/client": true, "runtime/transport": true,
	"runtime/store": true, "runtime/webhook": true, "runtime/readtool": true, "runtime/mcpe": true, "runtime/mcpc": true,
	"runtime/conversation": true,
}

// TestPromises holds every package that an author can import and that is not promised to say so.
func TestPromises(t *testing.T) {
	comments := map[string]string{}
	for _, root := range []string{"gen", "runtime", "templates"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "internal" || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel("..", filepath.Dir(name))
			if err != nil {
				return err
			}
			comments[filepath.ToSlash(rel)] += f.Doc.Text()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for pkg, comment := range comments {
		text := strings.Join(strings.Fields(comment), " ")
		none := strings.Contains(text, "makes no compatibility promise") || strings.Contains(text, "makes no promise of compatibility")
		switch {
		case promised[pkg] && none:
			t.Errorf("%s is promised and says that it is not", pkg)
		case !promised[pkg] && !none && (path.Dir(pkg) == "gen" || !promised[path.Dir(pkg)]):
			t.Errorf(`the comment of %s does not say "The package makes no compatibility promise."`, pkg)
		}
	}
}
