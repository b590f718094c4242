package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// colorModes contains the valid values of --color.
var colorModes = []string{"auto", "always", "never"}

// Root adds the shared flags, verbs and help to the root of a command tree. The flags are --format, with the given
// values, and --color. The verbs are completion, man and version. Errors include suggestions.
func (p *Program) Root(root *cobra.Command, formats ...string) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.Version = p.Version.Text + " " + p.Version.Go
	root.SetVersionTemplate(root.Name() + " {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version of "+root.Name())
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpCommand(newHelp(root.Name()))
	root.SetFlagErrorFunc(unknownFlag)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return p.Check() }
	p.formats = formats
	flags := root.PersistentFlags()
	flags.StringVar(&p.Format, "format", "text", "print results and errors as `"+strings.Join(formats, "|")+"`")
	flags.StringVar(&p.Color, "color", "auto", "color the output: `auto|always|never`; always treats a pipe as a terminal")
	CompleteWords(root, "format", formats...)
	CompleteWords(root, "color", colorModes...)
	root.AddCommand(p.newCompletion(root.Name()), p.newVersion(root.Name()))
}

// Check validates the flags that Root added. The root's PersistentPreRunE calls it before executing a verb.
func (p *Program) Check() error {
	if given := p.Format; !slices.Contains(p.formats, given) {
		p.Format = "text"
		last := len(p.formats) - 1
		return Usagef("--format %s: must be %s or %s", given, strings.Join(p.formats[:last], ", "), p.formats[last])
	}
	if !slices.Contains(colorModes, p.Color) {
		return Usagef("--color %s: must be auto, always or never", p.Color)
	}
	return nil
}

// Group makes cmd a group of verbs. Without arguments, the group prints its help. For an unknown verb, it suggests a
// similar one.
func Group(cmd *cobra.Command) {
	cmd.Use += " COMMAND"
	cmd.DisableFlagsInUseLine = true
	cmd.Args = UnknownVerb
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// UnknownVerb rejects the arguments of a group of verbs and suggests a similar verb.
func UnknownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := NearVerbs(cmd, args[0]); near != "" {
		return Usagef("unknown command %q; did you mean %s?", args[0], near)
	}
	return Usagef("unknown command %q", args[0])
}

// NearVerbs returns the verbs of cmd for which word is probably a typo, or "".
func NearVerbs(cmd *cobra.Command, word string) string {
	cmd.SuggestionsMinimumDistance = 2
	return strings.Join(cmd.SuggestionsFor(word), " or ")
}

// unknownFlag converts a flag error to a usage error. For an unknown flag, it suggests a similar one.
func unknownFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok || unknown.GetSpecifiedShortnames() != "" {
		return Usagef("%w", err)
	}
	// cobra only suggests verbs.
	flags := &cobra.Command{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags.AddCommand(&cobra.Command{Use: "--" + f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	if near := NearVerbs(flags, "--"+unknown.GetSpecifiedName()); near != "" {
		return Usagef("%w; did you mean %s?", err, near)
	}
	return Usagef("%w", err)
}

// NoArgs is cobra.NoArgs with the exit code Usage.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usagef("%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// CompleteWords registers the shell completions for the values of a flag.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	// The only possible error is an unknown flag, and a missing completion should not stop the program.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// HideDefault removes a flag's default, which may be secret, from the help text.
func HideDefault(cmd *cobra.Command, flag string) { cmd.Flags().Lookup(flag).DefValue = "" }

// newHelp returns the verb help. It returns a usage error for an unknown verb.
func newHelp(name string) *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Explain a command",
		Long:  "Explain a command: the same text as \"" + name + " COMMAND --help\".",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return UnknownVerb(of, rest)
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// usageTemplate is cobra's usage template with the examples before the flags.
const usageTemplate = `Usage:
  {{.UseLine}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Global flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

"{{.CommandPath}} COMMAND --help" explains a command.{{end}}
`
