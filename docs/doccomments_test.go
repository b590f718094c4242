package docs_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// The first sentence of a doc comment is what lists and completions show: in promised packages it says
// what a name is for, and leaves the requirement to the sentences after it.
func TestFirstSentencesHaveNoRequirementIDs(t *testing.T) {
	seen := 0
	for _, pkg := range promisedPackages(t) {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", pkg, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			commented(f, func(name string, c *ast.CommentGroup) {
				seen++
				first := new(doc.Package).Synopsis(c.Text())
				if id := requirementID.FindString(first); id != "" {
					t.Errorf("%s: the first sentence about %s names %s: %s", set.Position(c.Pos()), name, id, first)
				}
			})
		}
	}
	if seen < 500 {
		t.Errorf("%d comments were read", seen)
	}
}

// commented calls f for the comments of the package and of all exported names of a file: functions,
// methods, types with their fields and methods, variables and constants.
func commented(file *ast.File, f func(name string, c *ast.CommentGroup)) {
	tell := func(name string, comments ...*ast.CommentGroup) {
		for _, c := range comments {
			if c != nil && ast.IsExported(name) {
				f(name, c)
			}
		}
	}
	tell("Package", file.Doc)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			tell(d.Name.Name, d.Doc)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if len(d.Specs) == 1 {
						tell(s.Name.Name, d.Doc)
					}
					tell(s.Name.Name, s.Doc, s.Comment)
					if !s.Name.IsExported() {
						continue
					}
					ast.Inspect(s.Type, func(n ast.Node) bool {
						if m, ok := n.(*ast.Field); ok && len(m.Names) > 0 {
							tell(m.Names[0].Name, m.Doc, m.Comment)
						}
						return true
					})
				case *ast.ValueSpec:
					if len(d.Specs) == 1 {
						tell(s.Names[0].Name, d.Doc)
					}
					tell(s.Names[0].Name, s.Doc, s.Comment)
				}
			}
		}
	}
}

// maxFirstWords is the largest number of words in the first sentence of a doc comment of a promised package.
const maxFirstWords = 20

// TestFirstSentencesAreShort is run by make lint.
func TestFirstSentencesAreShort(t *testing.T) {
	for _, pkg := range promisedPackages(t) {
		files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(pkg), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", pkg, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			commented(f, func(name string, c *ast.CommentGroup) {
				first := new(doc.Package).Synopsis(c.Text())
				if n := len(strings.Fields(first)); n > maxFirstWords {
					t.Errorf("%s: the first sentence about %s has %d words, more than %d", set.Position(c.Pos()), name, n, maxFirstWords)
				}
			})
		}
	}
}
