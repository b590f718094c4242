package main

import (
	"flag"
	"io"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
)

var update = flag.Bool("update", false, "rewrite docs/reference/conform.md")

func tree() *cobra.Command {
	return newRoot(&command{cli.Program{Stdout: io.Discard, Stderr: io.Discard, Version: cli.VersionOf(nil)}})
}

// TestReference holds docs/reference/conform.md to the command. "make golden" rewrites it.
func TestReference(t *testing.T) {
	clitest.Current(t, "docs/reference/conform.md", clitest.Reference(t, tree()), *update)
}

// TestCommandsOfPages holds the commands of pages to the command.
func TestCommandsOfPages(t *testing.T) {
	clitest.CommandsOfPages(t, 8, tree)
	for line, wrong := range map[string]bool{"http://127.0.0.1:1/mcp --wait 1s": false, "versoin": true, "--tokn x http://127.0.0.1:1/mcp": true} {
		if err := clitest.Parses(tree(), line); (err != nil) != wrong {
			t.Errorf("%s: %v", line, err)
		}
	}
}
