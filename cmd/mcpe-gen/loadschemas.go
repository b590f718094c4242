package main

import (
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A loaded package has its event files and their diagnostics.
type loaded struct {
	request gen.Request
	set     *schema.Set
	found   []source.Diagnostic
}

// sets loads the event files of every package, chosen as in generate.
func (c *command) sets(files []string) ([]loaded, error) {
	requests, err := c.requests(files, outputs{})
	if err != nil {
		return nil, err
	}
	var all []loaded
	for _, r := range requests {
		set, found := schema.Load(r.Files, c.reading(r))
		all = append(all, loaded{r, set, found})
	}
	last := &all[len(all)-1]
	last.found = append(last.found, c.unused()...)
	return all, nil
}

// reading returns the options with which gen reads the event files of a request.
func (c *command) reading(r gen.Request) schema.Options {
	return schema.Options{Refs: r.Refs, Dialect: r.Dialect, Overrides: c.settings().Overrides,
		Formats: slices.Sorted(maps.Keys(r.Types))}
}

// settings returns the configuration of the run, or an empty one if it has read none.
func (c *command) settings() *config.Config {
	if c.loaded == nil {
		return &config.Config{}
	}
	return c.loaded
}

// unused reports the overrides of the config that had no effect.
func (c *command) unused() []source.Diagnostic { return c.settings().Overrides.Unused(c.partial) }

// now returns the time with which dates in event files are compared.
var now = time.Now

// completeEventFiles completes names of files that may be event files.
func completeEventFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}
