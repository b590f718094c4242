package gen

import (
	"bytes"
	"errors"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// strangers warns of the author's files in an output directory that belong to another package: the go
// command refuses a directory with two. Files that a build constraint keeps apart are no concern.
func strangers(r Request, h home, name string, present map[string][]byte) []source.Diagnostic {
	var found []source.Diagnostic
	for file, content := range present {
		if filepath.Ext(file) != ".go" || ours(file, content, present) {
			continue
		}
		if ok, err := build.Default.MatchFile(h.dir, file); err == nil && !ok {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, content, parser.PackageClauseOnly)
		if err != nil || f.Name.Name == name || strings.HasSuffix(file, "_test.go") && f.Name.Name == name+"_test" {
			continue
		}
		at := set.Position(f.Name.Pos())
		start := source.Position{File: filepath.Join(r.Out, file), Line: at.Line, Column: at.Column}
		end := start
		end.Column += len([]rune(f.Name.Name))
		found = append(found, source.New("MCPE304", source.Range{Start: start, End: end},
			"the file is of package %s, what is generated beside it of package %s; a directory holds one", f.Name.Name, name).
			WithHint("move it to another directory, or generate with package: %s", f.Name.Name))
	}
	return source.Sort(found)
}

// Abandoned warns of packages that an earlier run wrote elsewhere in the module for the event files of a
// package that this plan creates: its output directory was changed, and what is left behind compiles and
// is no longer kept current. It looks only where a package is created, so that a current one costs nothing;
// the output directories of the plan do not count.
func (p *Plan) Abandoned() ([]diagnostic.Diagnostic, error) {
	var found []source.Diagnostic
	current := map[string]bool{}
	for _, out := range p.packages {
		current[out.dir] = true
	}
	for _, out := range p.packages {
		if out.base == out.dir || !p.creates(filepath.Join(out.dir, golang.PackageFile)) {
			continue
		}
		dirs, err := left(out.base, out.sources, current)
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			found = append(found, source.New("MCPE305", source.InFile(shownBeside(out, dir)),
				"an earlier run has written a package here for %s, which now goes to %s", strings.Join(out.sources, ", "), out.shown).
				WithHint("delete what is generated there, or list it in mcpe.yaml as a package of its own"))
		}
	}
	return source.Sort(found), nil
}

func (p *Plan) creates(file string) bool {
	return slices.ContainsFunc(p.Create, func(f File) bool { return f.at == file })
}

// shownBeside spells a directory as the output directory is spelt.
func shownBeside(out output, dir string) string {
	if filepath.IsAbs(out.shown) {
		return dir
	}
	rel, err := filepath.Rel(out.dir, dir)
	if err != nil {
		return dir
	}
	return filepath.Join(out.shown, rel)
}

// left returns the directories below base whose generated package is of the sources, those of current
// left out. Modules below and hidden directories are not searched.
func left(base string, sources []string, current map[string]bool) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(base, func(at string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			return nil // not to be read, or gone since it was listed
		case err != nil:
			return err
		case d.IsDir() && at != base:
			name := d.Name()
			if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "node_modules" || name == "testdata" || name == "vendor" {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
				return fs.SkipDir
			}
		case d.Type().IsRegular() && strings.HasSuffix(d.Name(), golang.Suffix) && !current[filepath.Dir(at)]:
			dir := filepath.Dir(at)
			if slices.Contains(dirs, dir) {
				return nil
			}
			content, err := source.ReadFile(at)
			if err != nil {
				return nil
			}
			if ours(d.Name(), content, nil) && slices.ContainsFunc(sourcesOf(content), func(s string) bool { return slices.Contains(sources, s) }) {
				dirs = append(dirs, dir)
			}
		}
		return nil
	})
	return dirs, err
}

// sameText reports whether a file holds what is generated. Git may check files out with CRLF, which
// means the same in Go and JSON.
func sameText(old, generated []byte) bool {
	if bytes.Equal(old, generated) {
		return true
	}
	return bytes.Contains(old, []byte("\r\n")) &&
		bytes.Equal(bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n")), bytes.ReplaceAll(generated, []byte("\r\n"), []byte("\n")))
}
