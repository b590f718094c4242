package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A loadedPackage is a package with its event files and their diagnostics.
type loadedPackage struct {
	request gen.Request
	set     *schema.Set
	found   []source.Diagnostic
}

// loadSets loads the event files of every package that the arguments or the config select.
func (c *command) loadSets(files []string) ([]loadedPackage, error) {
	requests, err := c.requests(files, outputFlags{})
	if err != nil {
		return nil, err
	}
	var all []loadedPackage
	var found []source.Diagnostic
	for _, r := range requests {
		set, ds := c.load(r.Files)
		all = append(all, loadedPackage{r, set, ds})
		found = append(found, ds...)
	}
	last := &all[len(all)-1]
	last.found = append(last.found, c.unused(found)...)
	return all, nil
}

// load loads event files with the settings of the config.
func (c *command) load(files []string) (*schema.Set, []source.Diagnostic) {
	set, found := schema.Load(files, c.runConfig().Reading())
	c.runConfig().Record("", set)
	return set, found
}

// runConfig returns the configuration of the run, or an empty one if none was read.
func (c *command) runConfig() *config.Config {
	if c.runConfigFile == nil {
		return &config.Config{}
	}
	return c.runConfigFile
}

// unused returns diagnostics for the settings in the config that had no effect. It returns none if the run found errors,
// because it may not have read all files.
func (c *command) unused(found []source.Diagnostic) []source.Diagnostic {
	if source.HasErrors(found) {
		return nil
	}
	return c.runConfig().Unused(c.isPartial)
}

// now returns the time that is compared with dates in event files.
var now = time.Now

// completeEventFiles provides shell completion of event file names.
func completeEventFiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}
