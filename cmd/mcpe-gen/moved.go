package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
)

// movedVerbsByName lists the former verbs of mcpe-gen and the commands that replace them.
var movedVerbsByName = []struct{ verb, now, command string }{
	{"conform", "mcpe-conform", "mcpe-conform"},
	{"deadletters", "mcpe-ops deadletters", "mcpe-ops"},
	{"doctor", "mcpe-ops doctor", "mcpe-ops"},
}

// movedVerbs returns the former verbs. Each prints the name of its new command.
func movedVerbs(c *command) (verbs []*cobra.Command) {
	for _, m := range movedVerbsByName {
		install := "go install " + cli.Module + "/cmd/" + m.command + "@" + c.Version.Text
		if c.Version.Devel {
			install = "go install ./cmd/" + m.command + " in a checkout of mcpe-gen"
		}
		text := fmt.Sprintf("%s is now %q; install it with: %s", m.verb, m.now, install)
		verbs = append(verbs, &cobra.Command{
			Use:                m.verb,
			Long:               text + ".",
			Hidden:             true,
			DisableFlagParsing: true,
			RunE:               func(*cobra.Command, []string) error { return cli.Refuse(errors.New(text)) },
		})
	}
	return verbs
}
