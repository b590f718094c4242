package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/deadletters"
)

const deadLettersHelp = `Look at the events that a consumer (client.Consume) gave up, in its store: a file
of file.OpenCursors or an SQLite database.

  list        all of them
  show N...   with payload, error, tries and times
  retry N...  hand them to their handler again when the consumer runs
  drop N...   delete them, for good

One process at a time has the store. While the consumer runs, use client.DeadLetters
in it; this verb waits 10 seconds for it to end and then says who has the store.`

func newDeadLetters(c *command) *cobra.Command {
	var o deadletters.Options
	cmd := &cobra.Command{
		Use:   "deadletters STORE VERB [N...]",
		Short: "Show, retry and drop events that a consumer gave up",
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
	cmd.Flags().StringVar(&o.KeyFile, "key-file", "", "`file` with the key of an SQLite store that has one: its bytes, or base64")
	_ = cmd.MarkFlagFilename("key-file")
	return cmd
}
