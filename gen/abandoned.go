package gen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/golang"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/typescript"
)

// foreignFiles returns diagnostics about user files of another package in an output directory, because the go command
// rejects a directory with two packages. It ignores files that a build constraint excludes.
func foreignFiles(out output, present map[string][]byte) []source.Diagnostic {
	var found []source.Diagnostic
	for file, content := range present {
		if filepath.Ext(file) != ".go" || isGenerated(file, content, present) {
			continue
		}
		if ok, err := build.Default.MatchFile(out.dir, file); err == nil && !ok {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, content, parser.PackageClauseOnly)
		if err != nil || f.Name.Name == out.name || strings.HasSuffix(file, "_test.go") && f.Name.Name == out.name+"_test" {
			continue
		}
		at := set.Position(f.Name.Pos())
		start := source.Position{File: filepath.Join(out.shown, file), Line: at.Line, Column: at.Column}
		end := start
		end.Column += len([]rune(f.Name.Name))
		hint := "move it to another directory"
		if out.named {
			hint += ", or generate with package: " + f.Name.Name
		}
		found = append(found, source.New("MCPE304", source.Range{Start: start, End: end},
			"the file belongs to package %s, but the generated files next to it belong to package %s; a directory can hold only one package", f.Name.Name, out.name).
			WithHint("%s", hint))
	}
	return source.Sort(found)
}

// Abandoned returns diagnostics about generated files below dir that neither the plan nor a plugin writes. dir is the
// directory of the configuration. Such files remain if a package, its output directory, its TypeScript or a plugin is
// renamed or removed from the configuration. They still compile, but are never updated. Abandoned does not delete them,
// because another tool may generate them or a user may have edited them. It does not search nested modules, directories
// with a configuration, or hidden directories.
func (p *Plan) Abandoned(dir string, plugins []Plugin) ([]diagnostic.Diagnostic, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	planned := map[string]bool{}
	for _, f := range slices.Concat(p.Create, p.Update, p.Delete, p.Unchanged) {
		planned[f.at] = true
	}
	for _, of := range plugins { // even if --no-plugins skips them
		out, err := filepath.Abs(of.Out)
		if err != nil {
			return nil, err
		}
		written, err := writtenBefore(out, of.Name)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", of.Name, err)
		}
		for _, name := range append(written, plugin.ListFile) {
			planned[filepath.Join(out, filepath.FromSlash(name))] = true
		}
	}
	dirs, err := directories(root, func(at string) bool { return isGeneratedName(filepath.Base(at)) && !planned[at] })
	if err != nil {
		return nil, err
	}
	var found []source.Diagnostic
	for _, d := range dirs {
		names, by, err := abandonedIn(d, planned)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			continue
		}
		hint := "delete the files, or add their package to mcpe.yaml"
		if slices.Contains(names, plugin.ListFile) {
			hint = "delete " + plugin.ListFile + " and the files that it lists, or add the plugin to mcpe.yaml"
		}
		rel, err := filepath.Rel(root, d)
		if err != nil {
			return nil, err
		}
		found = append(found, source.New("MCPE305", source.InFile(filepath.Join(dir, rel)),
			"an earlier run generated %s here from %s, but no package or plugin of the configuration does so now", joinFirst(names), joinFirst(by)).
			WithHint("%s", hint))
	}
	return source.Sort(found), nil
}

// directories returns the directories below root that contain a file for which isCandidate returns true, sorted by
// path.
func directories(root string, isCandidate func(at string) bool) ([]string, error) {
	var dirs []string
	root += string(filepath.Separator) // root may be a symbolic link
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
			return nil // unreadable, or deleted after it was listed
		case err != nil:
			return err
		case d.IsDir() && at != root:
			name := d.Name()
			if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "node_modules" || name == "testdata" || name == "vendor" {
				return fs.SkipDir
			}
			for _, other := range []string{"go.mod", config.Name} {
				if _, err := os.Stat(filepath.Join(at, other)); err == nil {
					return fs.SkipDir
				}
			}
		case d.Type().IsRegular() && isCandidate(at) && !slices.Contains(dirs, filepath.Dir(at)):
			dirs = append(dirs, filepath.Dir(at))
		}
		return nil
	})
	return dirs, err
}

// isGeneratedName reports whether a file with this name can be a generated file with a header.
func isGeneratedName(name string) bool {
	part, isTypeScript := strings.CutSuffix(name, ".ts")
	return name == golang.PackageFile || strings.HasSuffix(name, golang.Suffix) || name == plugin.ListFile ||
		isTypeScript && (part == "events" || slices.Contains(typescript.Parts, part))
}

// joinFirst joins the first few words and appends the number of remaining words.
func joinFirst(words []string) string {
	const shown = 5
	if more := len(words) - shown; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:shown], ", "), more)
	}
	return strings.Join(words, ", ")
}

// abandonedIn returns the generated files in dir that are not planned, and their sources.
func abandonedIn(dir string, planned map[string]bool) (names, sources []string, err error) {
	present, err := readOutput(dir, func(name string) bool { return isGeneratedName(name) || markers[name] != "" })
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		if planned[filepath.Join(dir, name)] {
			continue
		}
		if name == plugin.ListFile {
			var l outputList
			if json.Unmarshal(present[name], &l) == nil && l.Plugin != "" {
				names, sources = append(names, name), append(sources, "the plugin "+l.Plugin)
			}
			continue
		}
		if !isGenerated(name, present[name], present) {
			continue
		}
		names = append(names, name)
		for _, s := range sourcesOf(present[name]) {
			if !slices.Contains(sources, s) {
				sources = append(sources, s)
			}
		}
	}
	return names, sources, nil
}

// sameText reports whether a file contains the generated text. It treats CRLF line ends like LF, because Git may
// convert them on checkout and Go and JSON do not distinguish them.
func sameText(old, generated []byte) bool {
	if bytes.Equal(old, generated) {
		return true
	}
	return bytes.Contains(old, []byte("\r\n")) &&
		bytes.Equal(bytes.ReplaceAll(old, []byte("\r\n"), []byte("\n")), bytes.ReplaceAll(generated, []byte("\r\n"), []byte("\n")))
}
