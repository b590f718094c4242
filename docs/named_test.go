package docs_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maintainers are the pages that speak of what is inside: to those who change mcpe-gen, or in the table of releases, of modules.
var maintainers = []string{"architecture.md", "packages.md", "extending.md", "releasing.md"}

// insiders are the files of examples that may: one holds the wire itself to the documents, one starts the demo's database.
var insiders = []string{"conformance/conformance_test.go", "demo/replicas.go"}

// unpromised returns the packages of runtime that are not promised, relative to the module.
func unpromised(t *testing.T) []string {
	t.Helper()
	promised := promisedPackages(t)
	found := map[string]bool{}
	walk := func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if filepath.Ext(name) == ".go" {
			rel, err := filepath.Rel("..", filepath.Dir(name))
			if err != nil {
				return err
			}
			// docs/jetstream.md says that the store's API is not promised yet.
			if pkg := filepath.ToSlash(rel); !slices.Contains(promised, pkg) && !strings.HasPrefix(pkg, "runtime/store/jetstream") {
				found[pkg] = true
			}
		}
		return nil
	}
	for _, root := range []string{"internal", "runtime"} {
		if err := filepath.WalkDir(filepath.Join("..", root), walk); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for pkg := range found {
		all = append(all, pkg)
	}
	slices.Sort(all)
	if !slices.Contains(all, "internal/wire") || !slices.Contains(all, "runtime/internal/topic") {
		t.Fatalf("not promised: %q", all)
	}
	return all
}

// naming matches text that names one of the packages: by its path, or by a selector such as wire.Kind.
func naming(packages []string) *regexp.Regexp {
	var paths, names []string
	for _, pkg := range packages {
		paths = append(paths, regexp.QuoteMeta(pkg))
		// Programs have packages schema, docs and provider too.
		if !strings.Contains(pkg, "/internal/") && !strings.HasPrefix(pkg, "internal/gen/") {
			names = append(names, regexp.QuoteMeta(path.Base(pkg)))
		}
	}
	return regexp.MustCompile(`\bruntime/internal\b|\b(?:` + strings.Join(paths, "|") + `)\b|(?:^|[^.\w/])(?:` +
		strings.Join(names, "|") + `)\.[A-Z]\w*`)
}

// What users read names packages that are promised: README, the pages and the examples.
func TestOnlyPromisedPackagesAreNamed(t *testing.T) {
	inside := unpromised(t)
	names := naming(inside)
	for text, want := range map[string]bool{
		"use `internal/wire`": true, "match wire.ErrEventID": true, "see validate.Compile": true,
		"the wire. A": false, "runtime/webhook": false, "see feed.Close": false, "runtime/internal/topic": true,
	} {
		if names.MatchString(text) != want {
			t.Fatalf("%q names one: %v", text, !want)
		}
	}
	for _, page := range pages(t) {
		if slices.Contains(maintainers, page) || strings.HasPrefix(page, "proposals") ||
			strings.HasPrefix(page, "../") && page != "../README.md" && !strings.HasPrefix(page, "../skills") {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if named := names.FindString(line); named != "" {
				t.Errorf("%s:%d names %q, which promises nothing", page, i+1, strings.TrimSpace(named))
			}
		}
	}
	root := filepath.Join("..", "examples")
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, name)
		if err != nil || filepath.Ext(name) != ".go" || slices.Contains(insiders, filepath.ToSlash(rel)) {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if pkg, ok := strings.CutPrefix(imported, "github.com/mcpe-gen/mcpe-gen/"); ok && slices.Contains(inside, pkg) {
				t.Errorf("%s imports %s, which promises nothing", name, pkg)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
