package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/deadletters"
)

const deadLettersHelp = `Work with the events that a consumer (client.Consume) gave up on. STORE is the file of
file.OpenCursors or an SQLite database.

  list        all of them
  show N...   with payload, error, tries and times
  retry N...  hand them to their handler again when the consumer runs
  drop N...   delete them, for good

Only one process at a time can open the store. While the consumer runs, call
clientstore.DeadLetters in it. This command waits 10 seconds for the consumer to end, and then
reports which process has the store open.`

func newDeadLetters(c *command) *cobra.Command {
	var o deadletters.Options
	cmd := &cobra.Command{
		Use:   "deadletters STORE VERB [N...]",
		Short: "Show, retry and drop the events that a consumer gave up on",
		Long:  deadLettersHelp,
		Example: `  mcpe-gen deadletters cursors.json list
  mcpe-gen deadletters consumer.db retry 12 13`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("deadletters needs a store and a verb: list, show, retry or drop")
			}
			o.Path, o.Verb, o.Args = args[0], args[1], args[2:]
			o.JSON, o.Stdout = c.format == "json", c.stdout
			err := deadletters.Run(cmd.Context(), o)
			if wrong, ok := errors.AsType[*deadletters.UsageError](err); ok {
				return refuse(wrong)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&o.KeyFile, "key-file", "", "`file` with the key of an encrypted SQLite store: its bytes, or base64")
	_ = cmd.MarkFlagFilename("key-file")
	return cmd
}
