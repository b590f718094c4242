package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	bridge "github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/config"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
)

func newSchema(c *command) *cobra.Command {
	kinds := []string{"events", "config", "bridge", "model"}
	schemas := map[string]func() []byte{"events": schema.EventFileSchema, "config": config.ConfigSchema, "bridge": bridge.Schema, "model": model.Schema}
	return &cobra.Command{
		Use:   "schema events|config|bridge|model",
		Short: "Print the JSON Schema of event files, of mcpe.yaml, of bridge.yaml or of the model",
		Long: `Print the JSON Schema of event files (events), of mcpe.yaml (config), of bridge.yaml
(bridge) or of what inspect prints and plugins are sent (model).

Editors use it for completion and validation. The YAML language server, for example,
reads its location from the first line of a file:

  # yaml-language-server: $schema=./mcpe-events.schema.json`,
		Example: `  mcpe-gen schema events > events/mcpe-events.schema.json
  mcpe-gen schema config > mcpe.schema.json
  mcpe-gen schema bridge > bridge.schema.json
  mcpe-gen schema model > model.schema.json`,
		ValidArgs: kinds,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(kinds, args[0]) {
				return cli.Usagef("schema takes one argument: events, config, bridge or model")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return c.Print(schemas[args[0]]()) },
	}
}
