package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-ops/internal/deadletters"
)

const deadLettersHelp = `Work with the events that a consumer (client.Consume) gave up on. STORE is the file of
file.OpenCursors or an SQLite database.

Only one process at a time can open the store. While the consumer runs, call
clientstore.DeadLetters in it. This command waits 10 seconds for the consumer to end, and then
reports which process has the store open.`

// letterVerbs contains the verbs of deadletters.
var letterVerbs = []struct{ use, short string }{
	{"list STORE", "List the dead letters"},
	{"show STORE N...", "Show dead letters with payload, error, tries and times"},
	{"retry STORE N...", "Retry dead letters when the consumer runs next"},
	{"drop STORE N...", "Delete dead letters permanently"},
}

func newDeadLetters(c *command) *cobra.Command {
	group := &cobra.Command{
		Use:   "deadletters",
		Short: "Show, retry and delete the events that a consumer has abandoned",
		Long:  deadLettersHelp,
		Example: `  mcpe-ops deadletters list cursors.json
  mcpe-ops deadletters retry consumer.db 12 13`,
	}
	cli.Group(group)
	var keyFile string
	group.PersistentFlags().StringVar(&keyFile, "key-file", "", "`file` with the key of an encrypted SQLite store: its bytes, or base64")
	_ = group.MarkPersistentFlagFilename("key-file")
	for _, v := range letterVerbs {
		group.AddCommand(&cobra.Command{
			Use:   v.use,
			Short: v.short,
			RunE: func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return cli.Usagef("%s needs the store", cmd.Name())
				}
				o := deadletters.Options{Path: args[0], Verb: cmd.Name(), Args: args[1:], KeyFile: keyFile, JSON: c.Format == "json", Stdout: c.Stdout}
				return deadletters.Run(cmd.Context(), o)
			},
		})
	}
	group.Args = checkLetterArgs
	return group
}

// checkLetterArgs rejects arguments before a verb of deadletters. It also reports a verb that follows the store.
func checkLetterArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 1 && slices.ContainsFunc(letterVerbs, func(v struct{ use, short string }) bool { return strings.HasPrefix(v.use, args[1]+" ") }) {
		return cli.Usagef("the verb comes before the store: %s", strings.Join(append([]string{cmd.CommandPath(), args[1], args[0]}, args[2:]...), " "))
	}
	return cli.UnknownVerb(cmd, args)
}
