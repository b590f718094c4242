package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen/config"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
)

func newSchema(c *command) *cobra.Command {
	kinds := []string{"events", "config"}
	schemas := map[string]func() []byte{"events": schema.EventFileSchema, "config": config.ConfigSchema}
	return &cobra.Command{
		Use:   "schema events|config",
		Short: "Print the JSON Schema of event files or of mcpe.yaml",
		Long: `Print the JSON Schema of event files (events) or of mcpe.yaml (config).

Editors use it for completion and for checks while typing. The YAML language
server, for one, takes it from the first line of a file:

  # yaml-language-server: $schema=./mcpe-events.schema.json`,
		Example: `  mcpe-gen schema events > events/mcpe-events.schema.json
  mcpe-gen schema config > mcpe.schema.json`,
		ValidArgs: kinds,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(kinds, args[0]) {
				return usagef("schema takes one argument: %s", strings.Join(kinds, " or "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error { return c.print(schemas[args[0]]()) },
	}
}
