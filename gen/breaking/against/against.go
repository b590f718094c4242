// Package against finds the old version of event files that new ones are compared with: a file, a
// directory, or a revision of git.
//
// Start with [Load].
//
// The package makes no promise of compatibility.
package against

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/gen/config"
	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// New is the version that is compared.
type New struct {
	// Files are the event files when they were named one by one; else Config is what lists them.
	Files  []string
	Config *config.Config
	// Types are the Go types of formats, Refs the files of remote schemas, Dialect what no schema says and
	// Overrides the changes to schemas when Files are given; a configuration has its own.
	Types, Refs map[string]string
	Dialect     string
	Overrides   *schema.Overrides
}

// A version is a tree of files: a directory, or a revision of a repository.
type version struct {
	// base is the path that stands for the directory that the new version is seen from, root that of
	// the configuration.
	base, root string
	read       func(path string) ([]byte, error)
	// list returns the event files that there may be; nil means that the file system is asked.
	list  func() []string
	label func(path string) string
}

// Load returns the packages of the old version that spec names:
//
//	git:REF        the same files at a revision, seen from the current directory
//	git:REF:PATH   a file or directory at a revision; PATH begins at the top of the repository, ./PATH here
//	DIR            the same files below another directory, such as a second checkout
//	FILE           one event file
//
// A directory stands for the one that holds mcpe.yaml, or the one that FILE arguments are relative
// to. Its own mcpe.yaml says which event files it had; without one the new configuration does. What
// is wrong with the old version is returned as diagnostics; a [RevisionError] is a revision that does
// not exist.
func Load(ctx context.Context, spec string, new New) ([]breaking.Package, []source.Diagnostic, error) {
	if rest, ok := strings.CutPrefix(spec, "git:"); ok {
		return loadGit(ctx, rest, spec, new)
	}
	info, err := os.Stat(spec)
	switch {
	case err != nil:
		return nil, []source.Diagnostic{missing(spec, "there is no such file or directory")}, nil
	case !info.IsDir():
		v := version{read: source.ReadFile}
		packages, ds := v.packages([]group{new.single(spec, new.Refs)})
		return packages, ds, nil
	}
	v := version{base: spec, root: spec, read: source.ReadFile}
	groups, d := v.groups(spec, new)
	if d != nil {
		return nil, []source.Diagnostic{*d}, nil
	}
	packages, ds := v.packages(groups)
	return packages, ds, nil
}

func missing(spec, format string, args ...any) source.Diagnostic {
	return source.New("MCPE560", source.InFile(spec), format, args...)
}

// A group is the files of one package of the old version.
type group struct {
	key, name string
	types     map[string]string
	reading   schema.Options
	files     []string
	tools     bool
}

// single is the group of one old file, which stands for the new file of its name, or for the only one.
func (n New) single(file string, refs map[string]string) group {
	now := ""
	for _, f := range n.Files {
		if now == "" || filepath.Base(f) == filepath.Base(file) {
			now = f
		}
	}
	known := func(p string) string {
		if p == file {
			return now
		}
		return relocated(p, filepath.Dir(file), filepath.Dir(now))
	}
	return group{files: []string{file}, tools: true, types: n.Types, reading: schema.Options{Refs: refs, Dialect: n.Dialect, Overrides: n.Overrides.Elsewhere(known)}}
}

// relocated moves a path from below one directory to below another.
func relocated(p, from, to string) string {
	rel, err := filepath.Rel(from, p)
	if err != nil {
		return p
	}
	return filepath.Join(to, rel)
}

// groups finds the files that a version has.
func (v *version) groups(spec string, new New) ([]group, *source.Diagnostic) {
	var groups []group
	if len(new.Files) > 0 {
		if files, now := v.named(new.Files); len(files) > 0 {
			known := func(p string) string {
				if f, ok := now[p]; ok {
					return f
				}
				return relocated(p, v.base, ".")
			}
			reading := schema.Options{Refs: rebase(new.Refs, ".", v.base), Dialect: new.Dialect, Overrides: new.Overrides.Elsewhere(known)}
			groups = []group{{files: files, tools: true, types: new.Types, reading: reading}}
		}
	} else {
		groups = v.configured(new.Config)
	}
	if len(groups) == 0 {
		d := missing(spec, "it has none of the event files that are compared")
		return nil, &d
	}
	return groups, nil
}

// named returns the old files of the same paths, or where there is none of the same names, and the new
// file that each stands for.
func (v *version) named(files []string) (found []string, now map[string]string) {
	now = map[string]string{}
	for _, given := range files {
		f := given
		if filepath.IsAbs(f) {
			if dir, err := os.Getwd(); err == nil {
				if rel, err := filepath.Rel(dir, f); err == nil {
					f = rel
				}
			}
		}
		for _, at := range []string{filepath.Join(v.base, f), filepath.Join(v.base, filepath.Base(f))} {
			if _, err := v.read(at); err == nil {
				if !slices.Contains(found, at) {
					found = append(found, at)
					now[at] = given
				}
				break
			}
		}
	}
	return found, now
}

// configured returns the packages of the old version's configuration, or of the new one as if it
// stood there.
func (v *version) configured(now *config.Config) []group {
	var old *config.Config
	for _, name := range []string{filepath.Base(now.Path), config.Name} {
		if old, _ = config.Load(filepath.Join(v.root, name), v.read); old != nil && len(old.Packages) > 0 {
			break
		}
	}
	if old == nil || len(old.Packages) == 0 {
		moved := *now
		moved.Dir = filepath.Clean(v.root)
		moved.Refs = rebase(now.Refs, now.Dir, moved.Dir)
		moved.Overrides = now.Overrides.Elsewhere(func(p string) string { return relocated(p, moved.Dir, now.Dir) })
		for i, p := range moved.Packages {
			if rel, err := filepath.Rel(now.Dir, p.Place()); err == nil {
				moved.Packages = slices.Clone(moved.Packages)
				moved.Packages[i].Out = filepath.Join(moved.Dir, rel)
			}
		}
		old = &moved
	}
	var groups []group
	for _, p := range old.Packages {
		var files []string
		if v.list != nil {
			files = old.Among(p, v.list())
		} else {
			files, _ = old.Files(p) // a pattern may have had no match yet
		}
		if len(files) > 0 {
			groups = append(groups, group{key: KeyOf(old, p.Place()), name: p.Name, types: old.Types, reading: old.Reading(), files: files, tools: slices.Contains(p.Emit, "tools")})
		}
	}
	return groups
}

// rebase moves paths from below one directory to below another.
func rebase(paths map[string]string, from, to string) map[string]string {
	out := map[string]string{}
	for key, p := range paths {
		if rel, err := filepath.Rel(from, p); err == nil {
			p = filepath.Join(to, rel)
		}
		out[key] = p
	}
	return out
}

// KeyOf is what the packages of two versions of a configuration are matched by: the output directory
// relative to it.
func KeyOf(c *config.Config, out string) string {
	rel, err := filepath.Rel(c.Dir, out)
	if err != nil {
		return out
	}
	return filepath.ToSlash(rel)
}

// Package describes a loaded package to [breaking.Compare]: key is its directory, whose name is the
// package's where neither name nor an event file gives one. An empty key is an unknown directory.
func Package(key, name string, types map[string]string, tools bool, set *schema.Set) breaking.Package {
	p := breaking.Package{Key: key, Set: set, Go: ir.Options{Package: name, Formats: map[string]ir.GoType{}, Tools: tools}}
	for _, f := range set.Files {
		if p.Go.Package == "" && f.Given {
			p.Go.Package = f.Package
		}
	}
	if p.Go.Package == "" && key != "" {
		p.Go.Package = path.Base(filepath.ToSlash(key))
	}
	for format, name := range types {
		// Load of the configuration has checked the form.
		if t, err := ir.ParseGoType(name); err == nil {
			p.Go.Formats[format] = t
		}
	}
	return p
}

// packages loads the groups. Only errors of an old version matter.
func (v *version) packages(groups []group) ([]breaking.Package, []source.Diagnostic) {
	var packages []breaking.Package
	var errors []source.Diagnostic
	for _, g := range groups {
		g.reading.ReadFile = v.read
		set, found := schema.Load(g.files, g.reading)
		for _, d := range found {
			if d.Severity == source.Error {
				errors = append(errors, v.relabel(d))
			}
		}
		p := Package(g.key, g.name, g.types, g.tools, set)
		p.Label = v.label
		packages = append(packages, p)
	}
	if len(errors) > 0 {
		errors = source.Sort(append(errors, missing(errors[0].Range.Start.File, "the old version has errors and cannot be compared with")))
		return nil, errors
	}
	return packages, nil
}

func (v *version) relabel(d source.Diagnostic) source.Diagnostic {
	if v.label == nil {
		return d
	}
	at := func(r source.Range) source.Range {
		r.Start.File, r.End.File = v.label(r.Start.File), v.label(r.End.File)
		return r
	}
	d.Range = at(d.Range)
	d.Related = slices.Clone(d.Related)
	for i := range d.Related {
		d.Related[i].Range = at(d.Related[i].Range)
	}
	return d
}

// notFound is the error of a path that a version does not have.
func notFound(path string) error { return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist} }
