package main

import (
	"maps"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/gen/config"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A loaded package is its event files and what was found wrong with them.
type loaded struct {
	request gen.Request
	set     *schema.Set
	found   []source.Diagnostic
}

// sets loads the event files of every package, chosen as with generate.
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

// reading is how the event files of a request are read: as gen reads them.
func (c *command) reading(r gen.Request) schema.Options {
	return schema.Options{Refs: r.Refs, Dialect: r.Dialect, Overrides: c.settings().Overrides,
		Formats: slices.Sorted(maps.Keys(r.Types))}
}

// settings is the configuration that the run has read, an empty one when it has read none.
func (c *command) settings() *config.Config {
	if c.loaded == nil {
		return &config.Config{}
	}
	return c.loaded
}

// unused reports the overrides of the config that had no effect on what was read.
func (c *command) unused() []source.Diagnostic { return c.settings().Overrides.Unused(c.partial) }

// now returns the time by which dates in event files are judged.
var now = time.Now
