package cli

import (
	"bytes"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

var shells = []string{"bash", "zsh", "fish", "powershell"}

// newCompletion returns the completion verb for the named command.
func (p *Program) newCompletion(name string) *cobra.Command {
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a completion script for a shell",
		Long: "Print the script that lets a shell complete the verbs, flags and files of " + name + `.
Load it in the running shell, or keep it where the shell looks for such scripts.`,
		Example: strings.ReplaceAll(`  source <(NAME completion bash)
  NAME completion zsh > "${fpath[1]}/_NAME"
  NAME completion fish > ~/.config/fish/completions/NAME.fish
  NAME completion powershell | Out-String | Invoke-Expression`, "NAME", name),
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return Usagef("completion takes one argument: %s", strings.Join(shells, ", "))
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
			return p.Print(b.Bytes())
		},
	}
}
