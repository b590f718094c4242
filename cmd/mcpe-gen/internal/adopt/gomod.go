package adopt

import (
	"bytes"
	"fmt"
	"go/version"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// RuntimePath is the module that generated code requires, and ToolPath is its command.
const (
	RuntimePath = "github.com/mcpe-gen/mcpe-gen"
	ToolPath    = RuntimePath + "/cmd/mcpe-gen"
)

// A Requirement lists the entries that a go.mod needs to build generated code, or to run the command.
type Requirement struct {
	// GoVersion is the minimum Go version, for example "1.26.0".
	GoVersion string
	// Version is the minimum version of this module, for example "v0.1.0".
	Version string
	// Replacement replaces this module. If its path is "", the go.mod keeps its replace line.
	Replacement module.Version
	// Modules are other required modules. Each is a subdirectory of this module with its own go.mod. They have the same
	// version and are replaced in the same way.
	Modules []string
	// Others are other required modules, with their minimum versions.
	Others []module.Version
	// Tool adds the tool line of the command.
	Tool bool
}

// paths returns the modules that r requires.
func (r Requirement) paths() []string {
	all := []string{RuntimePath}
	for _, m := range r.Modules {
		all = append(all, RuntimePath+"/"+m)
	}
	return all
}

// replacementPath returns the path that replaces a module if checkout replaces this one.
func replacementPath(path, checkout string) string {
	return strings.TrimSuffix(checkout, "/") + strings.TrimPrefix(path, RuntimePath)
}

// A Module is a module with an existing go.mod.
type Module struct {
	// Path is the module path.
	Path string
	// Version is the required version of the module of mcpe-gen, or "". Replacement replaces that module unless its path
	// is "".
	Version     string
	Replacement module.Version
	// HasTool reports whether the go.mod has the tool line of the command.
	HasTool bool
	// OtherSDK is a module for MCP servers that the go.mod requires and [Find] does not know, or "".
	OtherSDK string
	// Data is the content of the go.mod.
	Data []byte
}

// otherSDK matches module paths with the word mcp in their last element.
var otherSDK = regexp.MustCompile(`[/_.-](go)?mcp([_.-][^/]*)?(/v\d+)?$`)

// ParseModule parses a go.mod. Errors refer to it by name.
func ParseModule(name string, data []byte) (*Module, error) {
	f, err := modfile.Parse(name, data, nil)
	if err != nil {
		return nil, err
	}
	if f.Module == nil {
		return nil, fmt.Errorf("%s has no module line", name)
	}
	m := &Module{Path: f.Module.Mod.Path, Data: data}
	for _, r := range f.Require {
		if r.Mod.Path == RuntimePath {
			m.Version = r.Mod.Version
		}
		if !r.Indirect && otherSDK.MatchString(r.Mod.Path) && r.Mod.Path != path.Dir(mcpGoPath) {
			m.OtherSDK = r.Mod.Path
		}
	}
	for _, r := range f.Replace {
		if r.Old.Path == RuntimePath && (r.Old.Version == "" || r.Old.Version == m.Version) {
			m.Replacement = r.New
		}
	}
	m.HasTool = slices.ContainsFunc(f.Tool, func(t *modfile.Tool) bool { return t.Path == ToolPath })
	return m, nil
}

// Release returns the release of mcpe-gen that the module uses, for example "v0.1.0". It returns "" if the go.mod
// requires none, or names a directory or a commit instead.
func (m *Module) Release() string {
	release := m.Version
	if m.Replacement.Path != "" {
		release = m.Replacement.Version
	}
	if module.IsPseudoVersion(release) {
		return ""
	}
	return release
}

// Require returns the go.mod with the requirement r added. It preserves newer versions, comments, blocks and line
// endings.
func (m *Module) Require(r Requirement) ([]byte, error) {
	f, err := modfile.Parse("go.mod", m.Data, nil)
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
	if r.Tool {
		if err := f.AddTool(ToolPath); err != nil {
			return nil, err
		}
	}
	replacement := r.Replacement
	if replacement.Path == "" && m.Replacement.Version == "" && len(r.Modules) > 0 {
		replacement = m.Replacement // also for the other modules
	}
	for _, p := range r.paths() {
		requireAtLeast(f, p, r.Version)
		if replacement.Path != "" {
			if err := f.AddReplace(p, "", replacementPath(p, replacement.Path), replacement.Version); err != nil {
				return nil, err
			}
		}
	}
	for _, o := range r.Others {
		requireAtLeast(f, o.Path, o.Version)
	}
	f.Cleanup()
	f.SortBlocks()
	out, err := f.Format()
	if err == nil && bytes.Contains(m.Data, []byte("\r\n")) {
		out = bytes.ReplaceAll(out, []byte("\n"), []byte("\r\n"))
	}
	return out, err
}

// requireAtLeast adds a direct requirement for a module, next to the existing direct ones.
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
