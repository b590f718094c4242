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

// A Requirement is what a go.mod has to say for generated code to build.
type Requirement struct {
	// GoVersion is the least go line, for example "1.26.0".
	GoVersion string
	// Version is the least version of this module, for example "v0.1.0".
	Version string
	// Replace is the file path that this module is replaced by; "" leaves what go.mod says.
	Replace string
	// Modules are what else is required: directories below the root of this module, which have a go.mod of their own, in
	// the same version and replaced as it is.
	Modules []string
}

// paths are the modules that r requires.
func (r Requirement) paths() []string {
	all := []string{RuntimePath}
	for _, m := range r.Modules {
		all = append(all, RuntimePath+"/"+m)
	}
	return all
}

// replacement is what a module is replaced by, where this one is by the checkout.
func replacement(path, checkout string) string {
	return strings.TrimSuffix(checkout, "/") + strings.TrimPrefix(path, RuntimePath)
}

// Lines are the lines of a go.mod that say what is required, for somebody who adds them by hand.
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

// A Module is a go.mod that is there.
type Module struct {
	// Path is the module path.
	Path string
	// Replaced reports whether it replaces the module of mcpe-gen already.
	Replaced bool
	data     []byte
}

// ParseModule reads a go.mod; name is for errors.
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

// Require gives the go.mod with what r asks for. A newer version or go line stays; comments, blocks and line ends do
// too.
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
		f.DropToolchainStmt() // which the go line overrides
	}
	if err := f.AddTool(toolPath); err != nil {
		return nil, err
	}
	checkout := r.Replace
	for _, old := range f.Replace {
		if old.Old.Path == RuntimePath && old.New.Version == "" && checkout == "" && len(r.Modules) > 0 {
			checkout = old.New.Path // for the other modules too
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

// requireAtLeast requires a module directly, among the other direct requirements.
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
