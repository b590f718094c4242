package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// names contains the names in the event files that settings refer to.
type names struct{ formats, files, events []string }

// Record records the names in a set for [Config.Unused]. The paths in the set are relative to dir.
func (c *Config) Record(dir string, set *schema.Set) {
	c.met.formats = slices.AppendSeq(c.met.formats, maps.Keys(set.Formats))
	for _, f := range set.Files {
		path := f.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		c.met.files = append(c.met.files, path)
		for _, e := range f.Events {
			c.met.events = append(c.met.events, e.Name)
		}
	}
}

// Unused returns a diagnostic for each setting that had no effect on the recorded sets. The usual cause is that a name
// is misspelled or has changed. If some is true, not all files were read, and Unused considers only overrides for read
// files.
func (c *Config) Unused(some bool) []source.Diagnostic {
	found := c.Overrides.Unused(some)
	if some {
		return found
	}
	for _, list := range []*[]string{&c.met.formats, &c.met.events} { // packages can share files
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	report := func(at source.Range, hint, format string, args ...any) {
		found = append(found, source.New("MCPE409", at, format, args...).WithHint("%s", hint))
	}
	const relative = "the pattern is relative to the directory of the configuration"
	for format := range c.Types {
		if !slices.Contains(c.met.formats, format) {
			report(c.Places[[2]string{"format", format}], c.nearFormat(format), "no schema has the format %q", format)
		}
	}
	for _, i := range c.Lint.Ignore {
		if i.Path != "" && !slices.ContainsFunc(c.met.files, i.Covers) {
			report(i.Range, relative, "no file that is read matches the path %q", i.Path)
		}
		if i.Event != "" && !slices.ContainsFunc(c.met.events, i.Matches) {
			report(i.Range, "", "no event type matches %q%s", i.Event, suggest.EventTypes(i.Event, c.met.events))
		}
	}
	for _, s := range c.Silences {
		// Other codes are about other files, such as those in output directories.
		if isEventFile := strings.HasPrefix(s.Code, "MCPE1") || strings.HasPrefix(s.Code, "MCPE2"); isEventFile && !slices.ContainsFunc(c.met.files, s.matches) {
			report(s.at, relative, "no file that is read matches the files %q", s.Files)
		}
	}
	return source.Sort(found)
}

// nearFormat returns the hint for a format that no schema has.
func (c *Config) nearFormat(format string) string {
	if near := schema.NearFormat(format, c.met.formats); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(c.met.formats) == 0 {
		return "remove the entry; the schemas have no formats"
	}
	return "the formats are " + strings.Join(c.met.formats, ", ")
}
