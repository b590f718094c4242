package main

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

func newCompletion(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a completion script for a shell",
		Long: `Print the script that lets a shell complete mcpe-gen's commands, flags and event
files. Load it in the running shell, or keep it where the shell looks for such
scripts.`,
		Example: `  source <(mcpe-gen completion bash)
  mcpe-gen completion zsh > "${fpath[1]}/_mcpe-gen"
  mcpe-gen completion fish > ~/.config/fish/completions/mcpe-gen.fish
  mcpe-gen completion powershell | Out-String | Invoke-Expression`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return usagef("completion takes one argument: %s", strings.Join(shells, ", "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var b bytes.Buffer
			root := cmd.Root()
			write := map[string]func() error{
				"bash":       func() error { return root.GenBashCompletionV2(&b, true) },
				"zsh":        func() error { return root.GenZshCompletion(&b) },
				"fish":       func() error { return root.GenFishCompletion(&b, true) },
				"powershell": func() error { return root.GenPowerShellCompletionWithDesc(&b) },
			}
			if err := write[args[0]](); err != nil {
				return err
			}
			return c.print(b.Bytes())
		},
	}
}
