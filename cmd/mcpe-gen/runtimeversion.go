package main

import (
	"fmt"
	"path/filepath"

	"golang.org/x/mod/semver"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/adopt"
	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/templates"
)

// checkRuntime returns an error if the go.mod for generated code requires a release of another minor version than that
// of the command. It does not compare development builds, directories or commits.
func (c *command) checkRuntime(requests []gen.Request) error {
	if c.Version.Devel {
		return nil
	}
	var dirs []string
	for _, r := range requests {
		dirs = append(dirs, r.Out, r.ServerOut, r.ClientOut)
	}
	for _, out := range dirs {
		if out == "" {
			continue
		}
		m, dir, err := moduleOf(out)
		if err != nil {
			return err
		}
		if m == nil || m.Release() == "" || isSameMinor(m.Release(), c.Version.Text) {
			continue
		}
		line, err := rightGenerator(dir, m)
		if err != nil {
			return err
		}
		return &cli.Exit{Code: cli.Usage, Lines: []string{line},
			Err: fmt.Errorf("this mcpe-gen is %s, and %s requires %s: the minor versions must be the same; nothing was written. Run",
				c.Version.Text, filepath.Join(dir, "go.mod"), m.Release())}
	}
	return nil
}

// isSameMinor reports whether two versions have the same major and minor version.
func isSameMinor(a, b string) bool { return semver.MajorMinor(a) == semver.MajorMinor(b) }

// moduleOf returns the module that contains a directory, and the directory of its go.mod. It returns nil outside a
// module. The directory need not exist.
func moduleOf(dir string) (m *adopt.Module, root string, err error) {
	for root = absolute(dir); ; root = filepath.Dir(root) {
		if m, err = moduleIn(root); m != nil || err != nil || root == filepath.Dir(root) {
			return m, root, err
		}
	}
}

// rightGenerator returns the command line that gets or runs the generator of the release that the module in dir
// requires.
func rightGenerator(dir string, m *adopt.Module) (string, error) {
	s := templates.Scaffold{Tools: toolsDir(dir)}
	s.Vendored, _ = isVendored(dir)
	tools, err := moduleIn(filepath.Join(dir, s.Tools))
	if err != nil {
		return "", err
	}
	command := adopt.ToolPath + "@" + m.Release()
	line := "go get -modfile=" + s.Tools + "/go.mod -tool " + command
	switch {
	case m.HasTool:
		line = "go tool mcpe-gen generate"
	case tools == nil || !tools.HasTool:
		line = "go install " + command
	case isSameMinor(tools.Version, m.Release()):
		line = s.Command() + " generate"
	}
	if dir != absolute(".") {
		line = "cd " + shellWord(dir) + " && " + line
	}
	return line, nil
}
