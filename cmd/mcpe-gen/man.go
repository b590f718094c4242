package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages",
		Long: `Write a manual page for mcpe-gen and one for each of its commands into DIR, which is
created if it does not exist.`,
		Example: `  mcpe-gen man ~/.local/share/man/man1
  man mcpe-gen-generate`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("man takes one argument, the directory to write to")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			// The date is the commit's, not today's: the same build writes the same bytes.
			header := &doc.GenManHeader{Section: "1", Source: "mcpe-gen " + c.version.Text, Manual: "mcpe-gen", Date: &c.version.committed}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("writing manual pages: %w", err)
			}
			return nil
		},
	}
}
