package config

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// checkPattern reports whether a glob pattern is valid, and reports a finding if it is not.
func (l *loader) checkPattern(n *source.Node) bool {
	for _, segment := range strings.Split(n.Text, "/") {
		if _, err := path.Match(segment, ""); err != nil || strings.Contains(segment, "**") && segment != "**" {
			l.ReportOnce(source.New("MCPE401", n.Range, "%q is not a glob pattern", n.Text).
				WithHint("* matches within a name, ** any directories"))
			return false
		}
	}
	return true
}

// Files returns the event files of a package without duplicates, in the order of the patterns and sorted within a
// pattern. It reports each pattern without matches, because such patterns are nearly always misspelled.
func (c *Config) Files(p Package) ([]string, []source.Diagnostic) {
	var files []string
	var found []source.Diagnostic
	for _, pattern := range p.Schemas {
		matches, err := c.glob(pattern.Text)
		if err != nil {
			found = append(found, source.New("MCPE401", pattern.Range, "%q: %v", pattern.Text, err))
			continue
		}
		if len(matches) == 0 {
			found = append(found, source.New("MCPE401", pattern.Range, "%q matches no file", pattern.Text).
				WithHint("it is relative to the directory of %s", c.Path))
		}
		for _, m := range matches {
			if !slices.Contains(files, m) {
				files = append(files, m)
			}
		}
	}
	return files, found
}

// Among is like Files, but it matches the patterns against the given paths and does not report patterns without
// matches.
func (c *Config) Among(p Package, paths []string) []string {
	var files []string
	for _, pattern := range p.Schemas {
		segments := strings.Split(path.Clean(pattern.Text), "/")
		for _, name := range paths {
			rel, err := filepath.Rel(c.Dir, name)
			if err != nil || isHidden(segments, filepath.ToSlash(rel)) {
				continue
			}
			if rule.Glob(segments, strings.Split(filepath.ToSlash(rel), "/")) && !slices.Contains(files, name) {
				files = append(files, name)
			}
		}
	}
	return files
}

// isHidden reports whether the pattern contains ** and the path has a hidden element.
func isHidden(pattern []string, name string) bool {
	return slices.Contains(pattern, "**") && strings.Contains("/"+name, "/.") && !strings.HasPrefix(name, "../")
}

func (c *Config) glob(pattern string) ([]string, error) {
	pattern = filepath.ToSlash(pattern) // on systems with backslashes
	if !strings.Contains(pattern, "**") {
		return c.globPlain(pattern)
	}
	segments := strings.Split(path.Clean(pattern), "/")
	fixed := 0
	for fixed < len(segments)-1 && !strings.ContainsAny(segments[fixed], `*?[\`) {
		fixed++
	}
	top := filepath.Join(append([]string{c.Dir}, segments[:fixed]...)...)
	var files []string
	err := filepath.WalkDir(top, func(at string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && at == top:
			return filepath.SkipAll
		case err != nil:
			return err
		case d.IsDir() && at != top && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		rel, err := filepath.Rel(top, at)
		if err == nil && rule.Glob(segments[fixed:], strings.Split(filepath.ToSlash(rel), "/")) {
			files = append(files, at)
		}
		return err
	})
	return files, err
}

// globPlain returns the files that match a pattern without **. It does not add the directory's name to the pattern,
// because special characters cannot be escaped on Windows.
func (c *Config) globPlain(pattern string) ([]string, error) {
	dir, rest := c.Dir, path.Clean("./"+pattern)
	for strings.HasPrefix(rest, "../") {
		dir, rest = filepath.Join(dir, ".."), rest[len("../"):]
	}
	if rest = strings.TrimPrefix(rest, "/"); rest == ".." {
		return nil, nil // a directory
	}
	all, err := fs.Glob(os.DirFS(cmp.Or(dir, ".")), rest)
	var files []string
	for _, name := range all {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Stat(file); err != nil || !info.IsDir() {
			files = append(files, file)
		}
	}
	return files, err
}
