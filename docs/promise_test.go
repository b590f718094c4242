package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPromises holds every package that an author can import and that is not promised to say so.
func TestPromises(t *testing.T) {
	promised := promisedPackages(t)
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
		switch listed := slices.Contains(promised, pkg); {
		case listed && none:
			t.Errorf("versioning.md promises %s, which says that it is not promised", pkg)
		case !listed && !none:
			t.Errorf(`the comment of %s does not say "The package makes no promise of compatibility."`, pkg)
		}
	}
}
