package cli

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Module is the path of the module that contains the commands.
const Module = "github.com/mcpe-gen/mcpe-gen"

// A Version describes the running binary according to its build info.
type Version struct {
	// Text is a module version such as "v0.1.0", or "(devel)".
	Text string `json:"version"`
	// Devel reports whether the binary is not a released version, so a new module cannot require it. Such a binary is
	// built from a checkout, from a commit without a tag, or with local changes.
	Devel bool `json:"devel"`
	// Revision is the commit that a checkout was built from.
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

// pseudoVersion matches the timestamp and revision of a pseudo-version, for example
// v0.0.0-20260102150405-abcdefabcdef.
var pseudoVersion = regexp.MustCompile(`[-.][0-9]{14}-[0-9A-Za-z]+(\+|$)`)

// VersionOf returns the version in the build info. If info is nil, the version is unknown.
func VersionOf(info *debug.BuildInfo) Version {
	v := Version{Text: "(devel)", Go: runtime.Version()}
	if info == nil {
		v.Devel = true
		return v
	}
	main := info.Main
	if main.Version != "" && main.Path == Module && main.Replace == nil {
		v.Text = main.Version
	}
	v.Devel = devel(v.Text)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}

func devel(text string) bool {
	return !strings.HasPrefix(text, "v") || pseudoVersion.MatchString(text) || strings.Contains(text, "+dirty")
}

// newVersion returns the version verb for the named command.
func (p *Program) newVersion(name string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of " + name,
		Long:  "Print the version of " + name + " and of the Go release that built it.",
		Example: "  " + name + " version\n" +
			"  " + name + " version --format json",
		Args: NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if p.Format == "json" {
				return p.PrintJSON(p.Version)
			}
			return p.Print(fmt.Appendf(nil, "%s %s %s\n", name, p.Version.Text, p.Version.Go))
		},
	}
}
