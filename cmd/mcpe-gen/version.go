package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const modulePath = "github.com/mcpe-gen/mcpe-gen"

// A version is what the build info says about this binary.
type version struct {
	// Text is a module version such as "v0.1.0", or "(devel)".
	Text string `json:"version"`
	// Devel is set when no released version of the module is this one, so that a new module cannot
	// require it: a build from a checkout, of a commit without a tag, or with local changes.
	Devel bool `json:"devel"`
	// Revision is the commit that a checkout was built from.
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	// committed is when Revision was, the zero Unix time where that is not known.
	committed time.Time
}

// pseudo matches the timestamp and revision of a pseudo-version, for example
// v0.0.0-20260102150405-abcdefabcdef.
var pseudo = regexp.MustCompile(`[-.][0-9]{14}-[0-9A-Za-z]+(\+|$)`)

func versionOf(info *debug.BuildInfo) version {
	v := version{Text: "(devel)", Go: runtime.Version(), committed: time.Unix(0, 0).UTC()}
	if info == nil {
		v.Devel = true
		return v
	}
	main := info.Main
	if main.Version != "" && main.Path == modulePath && main.Replace == nil {
		v.Text = main.Version
	}
	v.Devel = devel(v.Text)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			if t, err := time.Parse(time.RFC3339, s.Value); err == nil {
				v.committed = t
			}
		}
	}
	return v
}

func devel(text string) bool {
	return !strings.HasPrefix(text, "v") || pseudo.MatchString(text) || strings.Contains(text, "+dirty")
}

func newVersion(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of mcpe-gen",
		Long: `Print the version of mcpe-gen and of the Go release that built it.

Generated code never contains the version. The runtime must not be older than the
mcpe-gen that wrote the code; the compiler checks this. A "tool" line in go.mod keeps
both at the same version.`,
		Example: `  mcpe-gen version
  mcpe-gen version --format json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if c.format == "json" {
				return c.printJSON(c.version)
			}
			return c.print(fmt.Appendf(nil, "mcpe-gen %s %s\n", c.version.Text, c.version.Go))
		},
	}
}
