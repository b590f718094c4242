package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

func newInspect(c *command) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect [FILE...]",
		Short: "Print what the generator reads from event files, as JSON",
		Long: `Print what the generator reads from event files as one JSON document, without
writing anything.

Files are chosen as with generate: FILE arguments, or else those of mcpe.yaml.
The document has:

  version   of its form: within one, members are added and none is changed
  packages  for each: the event types, tasks and the conversation; under types
            every type as data, with what Go and TypeScript call it; under
            $defs the JSON Schemas, resolved

"mcpe-gen schema model" prints its JSON Schema. Plugins receive the same document.`,
		Example: `  mcpe-gen inspect incidents.yaml
  mcpe-gen inspect | jq -r '.packages[].events[] | "\(.pos) \(.name) \(.payload.type)"'`,
		ValidArgsFunction: completeEventFiles,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.inspect(cmd.Context(), args) },
	}
}

func (c *command) inspect(ctx context.Context, files []string) error {
	requests, err := c.requests(files, outputFlags{})
	if err != nil {
		return err
	}
	doc := model.Document{Version: model.Version, Packages: []*model.Package{}}
	err = c.runRequests(requests, func(r gen.Request) ([]source.Diagnostic, error) {
		p, ds, err := gen.Inspect(ctx, r)
		doc.Packages = append(doc.Packages, p)
		return ds, err
	})
	if err != nil {
		return err
	}
	return c.PrintDocument(doc)
}
