package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

func newInspect(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect [FILE...]",
		Short: "Print what the generator sees in event files, as JSON",
		Long: `Print what the generator sees in event files, as JSON, without writing anything.

Files are chosen as with generate: FILE arguments, or else those of mcpe.yaml,
with one JSON document a package. A document has

  package   the name of the Go package
  events    for each: name, source, delivery, the Go types of the arguments
            (input.goType) and of the payload (payload.goType), and pos, the
            place where it is defined
  types     the Go types of the package
  overrides where mcpe.yaml changes a schema; absent where it changes none

A goType is an identifier of the generated package; json.Unmarshal accepts it.`,
		Example: `  mcpe-gen inspect incidents.yaml
  mcpe-gen inspect | jq -r '.events[] | "\(.pos) \(.name) \(.payload.goType)"'`,
		ValidArgsFunction: completeEventFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.inspect(cmd.Context(), args) },
	}
}

func (c *command) inspect(ctx context.Context, files []string) error {
	requests, err := c.requests(files, outputs{})
	if err != nil {
		return err
	}
	var models []*gen.Model
	err = c.each(requests, func(r gen.Request) ([]source.Diagnostic, error) {
		model, ds, err := gen.Inspect(ctx, r)
		models = append(models, model)
		return ds, err
	})
	if err != nil {
		return err
	}
	for _, m := range models {
		if err := c.printJSON(m); err != nil {
			return err
		}
	}
	return nil
}
