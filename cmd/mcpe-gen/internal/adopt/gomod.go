package adopt

import (
	"bytes"
	"fmt"
	"go/version"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// The module that generated code needs, and its command.
const (
	RuntimePath = "github.com/mcpe-gen/mcpe-gen"
	toolPath    = RuntimePath + "/cmd/mcpe-gen"
)

// A Requirement lists the entries that a go.mod needs to build generated code.
type Requirement struct {
	// GoVersion is the minimum go line, for example "1.26.0".
	GoVersion string
	// Version is the minimum version of this module, for example "v0.1.0".
	Version string
	// Replace is the file path that replaces this module; "" keeps the go.mod's.
	Replace string
	// Modules are other required modules: directories below the root of this module with a separate go.mod. They get
	// the same version and are replaced in the same way.
	Modules []string
}

// paths returns the modules that r requires.
func (r Requirement) paths() []string {
	all := []string{RuntimePath}
	for _, m := range r.Modules {
		all = append(all, RuntimePath+"/"+m)
	}
	return all
}

// replacement returns the replacement of a module if checkout replaces this one.
func replacement(path, checkout string) string {
	return strings.TrimSuffix(checkout, "/") + strings.TrimPrefix(path, RuntimePath)
}

// Lines returns the go.mod lines of the requirement, for adding them by hand.
func (r Requirement) Lines() []string {
	lines := []string{"go " + r.GoVersion, "tool " + toolPath}
	for _, p := range r.paths() {
		lines = append(lines, "require "+p+" "+r.Version)
	}
	if r.Replace != "" {
		for _, p := range r.paths() {
			lines = append(lines, "replace "+p+" => "+modfile.AutoQuote(replacement(p, r.Replace)))
		}
	}
	return lines
}

// A Module is an existing go.mod.
type Module struct {
	// Path is the module path.
	Path string
	// Replaced reports whether it already replaces the module of mcpe-gen.
	Replaced bool
	data     []byte
}

// ParseModule parses a go.mod; name appears in errors.
func ParseModule(name string, data []byte) (*Module, error) {
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		return nil, err
	}
	if f.Module == nil {
		return nil, fmt.Errorf("%s has no module line", name)
	}
	m := &Module{Path: f.Module.Mod.Path, data: data}
	for _, r := range f.Replace {
		m.Replaced = m.Replaced || r.Old.Path == RuntimePath
	}
	return m, nil
}

// Require returns the go.mod with the requirement r. It keeps a newer version or go line, and comments, blocks and line
// endings.
func (m *Module) Require(r Requirement) ([]byte, error) {
	f, err := modfile.Parse("go.mod", m.data, nil)
	if err != nil {
		return nil, err
	}
	if f.Go == nil || version.Compare("go"+f.Go.Version, "go"+r.GoVersion) < 0 {
		if err := f.AddGoStmt(r.GoVersion); err != nil {
			return nil, err
		}
	}
	if f.Toolchain != nil && version.Compare(f.Toolchain.Name, "go"+f.Go.Version) < 0 {
		f.DropToolchainStmt() // the go line overrides it
	}
	if err := f.AddTool(toolPath); err != nil {
		return nil, err
	}
	checkout := r.Replace
	for _, old := range f.Replace {
		if old.Old.Path == RuntimePath && old.New.Version == "" && checkout == "" && len(r.Modules) > 0 {
			checkout = old.New.Path // also for the other modules
		}
	}
	for _, p := range r.paths() {
		requireAtLeast(f, p, r.Version)
		if checkout != "" {
			if err := f.AddReplace(p, "", replacement(p, checkout), ""); err != nil {
				return nil, err
			}
		}
	}
	f.Cleanup()
	f.SortBlocks()
	out, err := f.Format()
	if err == nil && bytes.Contains(m.data, []byte("\r\n")) {
		out = bytes.ReplaceAll(out, []byte("\n"), []byte("\r\n"))
	}
	return out, err
}

// requireAtLeast adds a direct requirement for a module, next to the other direct ones.
func requireAtLeast(f *modfile.File, path, least string) {
	found := false
	for _, r := range f.Require {
		if r.Mod.Path != path {
			continue
		}
		found = true
		r.Indirect = false
		if semver.Compare(r.Mod.Version, least) < 0 {
			r.Mod.Version = least
		}
	}
	all := f.Require
	if !found {
		all = append(all, &modfile.Require{})
		all[len(all)-1].Mod.Path, all[len(all)-1].Mod.Version = path, least
	}
	f.SetRequireSeparateIndirect(all)
}
