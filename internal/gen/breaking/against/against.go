// Package against loads the old version of event files for a comparison: a file, a directory, or a git revision.
//
// Start with [Load].
package against

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// New describes the new version.
type New struct {
	// Files lists the event files that the user named. If it is empty, Config lists them.
	Files []string
	// Config provides the settings for reading the files. It is empty if the run does not read a configuration.
	Config *config.Config
}

// A version is a tree of files: a directory or a git revision.
type version struct {
	// base is the directory for the relative paths of the new version. root is the directory of the configuration.
	base, root string
	read       func(path string) ([]byte, error)
	// list returns the candidate event files. If it is nil, the file system is searched.
	list  func() []string
	label func(path string) string
}

// Load returns the packages of the old version that spec names:
//
//	git:REF        the same files at a revision, relative to the current directory
//	git:REF:PATH   a file or directory at a revision; PATH starts at the top of the repository, ./PATH here
//	DIR            the same files below another directory, such as a second checkout
//	FILE           one event file
//
// A directory corresponds to the directory of mcpe.yaml, or to the base directory of FILE arguments. If the directory
// contains an mcpe.yaml, that file lists the old event files. Otherwise, Load uses the new configuration. Load returns
// errors in the old version as diagnostics, and a [RevisionError] if the revision does not exist.
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
		packages, ds := v.packages([]group{new.singleGroup(spec, new.Config.Refs)})
		return packages, ds, nil
	}
	v := version{base: spec, root: spec, read: source.ReadFile}
	packages, ds := v.load(spec, new)
	return packages, ds, nil
}

func missing(spec, format string, args ...any) source.Diagnostic {
	return source.New("MCPE560", source.InFile(spec), format, args...)
}

// A group contains the files of one package of the old version.
type group struct {
	key, name string
	types     map[string]string
	reading   schema.Options
	files     []string
	tools     bool
	// config is the configuration with the package, and of is its entry. They are nil if the old version has none.
	config *config.Config
	of     *config.Package
}

// singleGroup returns the group for one old file. The file corresponds to the new file with the same name, or to the
// first new file.
func (n New) singleGroup(file string, refs map[string]string) group {
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
		return movePath(p, filepath.Dir(file), filepath.Dir(now))
	}
	return n.group([]string{file}, refs, known)
}

// group returns the group for old files that are read with the settings of the new version. known translates the path
// of an old file to that of the new file.
func (n New) group(files []string, refs map[string]string, known func(path string) string) group {
	reading := n.Config.Reading()
	reading.Refs, reading.Overrides = refs, reading.Overrides.Elsewhere(known)
	return group{files: files, tools: true, types: n.Config.Types, reading: reading}
}

// movePath moves a path from one directory to another.
func movePath(p, from, to string) string {
	rel, err := filepath.Rel(from, p)
	if err != nil {
		return p
	}
	return filepath.Join(to, rel)
}

// load returns the packages of a version.
func (v *version) load(spec string, new New) ([]breaking.Package, []source.Diagnostic) {
	var groups []group
	if len(new.Files) > 0 {
		if files, now := v.matchFiles(new.Files); len(files) > 0 {
			known := func(p string) string {
				if f, ok := now[p]; ok {
					return f
				}
				return movePath(p, v.base, ".")
			}
			groups = []group{new.group(files, rebase(new.Config.Refs, ".", v.base), known)}
		}
	} else {
		groups = v.configuredGroups(new.Config)
	}
	if len(groups) == 0 {
		return nil, []source.Diagnostic{missing(spec, "it has none of the event files that are compared")}
	}
	return v.packages(groups)
}

// matchFiles returns the old files that correspond to the given new files. An old file has the path of a new file, or
// otherwise its base name. now maps old files to new files.
func (v *version) matchFiles(files []string) (found []string, now map[string]string) {
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

// configuredGroups returns the packages of the old configuration, or of the new configuration applied to the old
// directory.
func (v *version) configuredGroups(now *config.Config) []group {
	var old *config.Config
	for _, name := range []string{filepath.Base(now.Path), config.Name} {
		if old, _ = config.Load(filepath.Join(v.root, name), v.read); old != nil && len(old.Packages) > 0 {
			break
		}
	}
	known := old != nil && len(old.Packages) > 0
	if !known {
		moved := *now
		moved.Dir = filepath.Clean(v.root)
		moved.Refs = rebase(now.Refs, now.Dir, moved.Dir)
		moved.Overrides = now.Overrides.Elsewhere(func(p string) string { return movePath(p, moved.Dir, now.Dir) })
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
			files, _ = old.Files(p) // a pattern may match no old file
		}
		if len(files) == 0 {
			continue
		}
		g := group{key: KeyOf(old, p.Place()), name: p.Name, types: old.Types, reading: old.Reading(), files: files, tools: slices.Contains(p.Emit, "tools")}
		if known {
			g.config, g.of = old, &p
		}
		groups = append(groups, g)
	}
	return groups
}

// rebase moves paths from one directory to another.
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

// KeyOf returns the key that identifies a package in both configurations: its output directory, relative to the
// configuration.
func KeyOf(c *config.Config, out string) string {
	rel, err := filepath.Rel(c.Dir, out)
	if err != nil {
		return out
	}
	return filepath.ToSlash(rel)
}

// SetPlaces sets the directories of the packages for servers and clients to those of an entry of the configuration.
func SetPlaces(p *breaking.Package, c *config.Config, of config.Package) {
	if of.Out == "" {
		return
	}
	for _, part := range []struct {
		into        *string
		dir, suffix string
		emit        []string
	}{
		{&p.Server, of.Server, config.ServerSuffix, []string{"server", "tools", "ingress"}},
		{&p.Client, of.Client, config.ClientSuffix, []string{"client"}},
	} {
		if !slices.ContainsFunc(of.Emit, func(e string) bool { return slices.Contains(part.emit, e) }) {
			continue
		}
		if part.dir == "" {
			part.dir = filepath.Join(of.Out, p.Go.Package+part.suffix)
		}
		*part.into = KeyOf(c, part.dir)
	}
}

// Package returns the input of [breaking.Compare] for a loaded package. If name is empty and no event file declares a
// package name, the name is the last element of key. key may be empty if the directory is unknown.
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
		// Load validated the form of the configured types.
		if t, err := ir.ParseGoType(name); err == nil {
			p.Go.Formats[format] = t
		}
	}
	return p
}

// packages loads the groups. It returns only findings with severity error.
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
		if g.of != nil {
			SetPlaces(&p, g.config, *g.of)
		}
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

// notFound returns the error for a path that a version does not have.
func notFound(path string) error { return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist} }
