package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

func newSchema(c *command) *cobra.Command {
	kinds := []string{"events", "config", "model"}
	schemas := map[string]func() []byte{"events": schema.EventFileSchema, "config": config.ConfigSchema, "model": model.Schema}
	return &cobra.Command{
		Use:   "schema events|config|model",
		Short: "Print the JSON Schema of event files, of mcpe.yaml or of the model",
		Long: `Print the JSON Schema of event files (events), of mcpe.yaml (config) or of what
inspect prints and plugins are sent (model).

Editors use it for completion and validation. The YAML language server, for example,
reads its location from the first line of a file:

  # yaml-language-server: $schema=./mcpe-events.schema.json`,
		Example: `  mcpe-gen schema events > events/mcpe-events.schema.json
  mcpe-gen schema config > mcpe.schema.json
  mcpe-gen schema model > model.schema.json`,
		ValidArgs: kinds,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(kinds, args[0]) {
				return cli.Usagef("schema takes one argument: %s", "events, config or model")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return c.Print(schemas[args[0]]()) },
	}
}
