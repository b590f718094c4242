package importer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// knownModes returns the offered delivery modes that an event file can list.
func knownModes(offered []string) []string {
	var modes []string
	for _, m := range offered {
		if (m == wire.ModePoll || m == wire.ModePush || m == wire.ModeWebhook) && !slices.Contains(modes, m) {
			modes = append(modes, m)
		}
	}
	return modes
}

// Deprecation returns the value of deprecated for an event file.
func Deprecation(d schema.Deprecated) *source.Node {
	n := yaml.Object()
	if d.ReplacedBy != "" {
		yaml.Set(n, "replacedBy", yaml.Text(d.ReplacedBy))
	}
	if d.RemoveAfter != "" {
		yaml.Set(n, "removeAfter", yaml.Text(d.RemoveAfter))
	}
	return n
}

// coalesceNode returns the value of x-coalesce for an event file.
func coalesceNode(c wire.Coalesce) *source.Node {
	n := yaml.Object()
	if len(c.Key) == 1 {
		yaml.Set(n, "key", yaml.Text(c.Key[0]))
	} else {
		yaml.Set(n, "key", yaml.Texts(c.Key))
	}
	yaml.Set(n, "quietSeconds", yaml.Number(c.QuietSeconds))
	yaml.Set(n, "maxSeconds", yaml.Number(c.MaxSeconds))
	if c.Keep != wire.KeepLatest {
		yaml.Set(n, "keep", yaml.Text(c.Keep))
	}
	return n
}

// removeActorArgument removes the argument that an x-actor with the given path would add. If the argument is absent or
// different, it returns false.
func removeActorArgument(event *source.Node, path string) bool {
	argument := event.Get("inputSchema").Get("properties").Get(wire.NotBy)
	adds := schema.NotBy(path)
	adds.Members = slices.DeleteFunc(adds.Members, func(m source.Member) bool { return schema.GeneratorOnly(m.Key) })
	shapes := schema.NewShapes(true, func(ref *source.Node) string { return ref.Text })
	if argument == nil || shapes.Number(argument) != shapes.Number(adds) {
		return false
	}
	removeNotBy(event)
	return true
}

// removeNotBy removes the argument [wire.NotBy], which an x-actor adds.
func removeNotBy(event *source.Node) {
	properties := event.Get("inputSchema").Get("properties")
	properties.Members = slices.DeleteFunc(properties.Members, func(m source.Member) bool { return m.Key == wire.NotBy })
}

// metaOf returns the _meta of a descriptor without the fingerprint, x-coalesce and x-actor, which the generator adds.
// It returns nil if the result would be empty.
func metaOf(meta map[string]any) (*source.Node, error) {
	rest := map[string]any{}
	for k, v := range meta {
		if k != wire.MetaFingerprint && k != wire.MetaCoalesce && k != wire.MetaActor {
			rest[k] = v
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(rest)
	if err != nil {
		return nil, err
	}
	n, found := source.Parse("_meta", raw)
	if source.HasErrors(found) {
		return nil, fmt.Errorf("%s", found[0].Message)
	}
	return n, nil
}

// addMatch adds an x-match to the argument of the rule if the argument's schema is an object.
func addMatch(event *source.Node, rule schema.MatchRule) {
	argument := event.Get("inputSchema").Get("properties").Get(rule.Argument)
	if argument == nil || argument.Kind != source.Object {
		return
	}
	if (rule.Op == "" || rule.Op == "equal") && !rule.Not {
		yaml.Set(argument, "x-match", yaml.Text(rule.Path))
		return
	}
	x := yaml.Object()
	yaml.Set(x, "path", yaml.Text(rule.Path))
	if rule.Op != "" {
		yaml.Set(x, "op", yaml.Text(rule.Op))
	}
	if rule.Not {
		yaml.Set(x, "not", yaml.Flag(true))
	}
	yaml.Set(argument, "x-match", x)
}

// render returns the content of the event file.
func (w *writer) render() []byte {
	var b strings.Builder
	b.WriteString("# Event types")
	if w.o.From != "" {
		b.WriteString(" of " + oneLine(w.o.From))
	}
	b.WriteString(", written by mcpe-gen import. It is yours to edit.\n")
	if w.doc.Published {
		b.WriteString("# The schemas are as published; a change of them shows as drift.\n")
	}
	if len(w.omissions) > 0 {
		b.WriteString("#\n# Left out:\n")
		for _, line := range w.omissions {
			b.WriteString("#   " + oneLine(line) + "\n")
		}
	}
	w.writeComments(&b, "", w.doc.Comments)
	b.WriteString("version: 1\n")
	if w.o.Package != "" {
		b.WriteString("package: " + yaml.Scalar(w.o.Package) + "\n")
	}
	if w.o.Dialect != "" {
		b.WriteString("dialect: " + yaml.Scalar(w.o.Dialect) + "\n")
	}
	if len(w.order) > 0 {
		b.WriteString("\nschemas:\n")
		for _, name := range w.order {
			w.writeComments(&b, "  ", w.shared[name].comments)
			entry := yaml.Object()
			yaml.Set(entry, name, w.shared[name].node)
			b.WriteString(yaml.Block(entry, 2))
		}
	}
	if len(w.drafts) > 0 {
		b.WriteString("\nevents:\n")
	}
	for i, d := range w.drafts {
		if i > 0 {
			b.WriteByte('\n')
		}
		w.writeComments(&b, "  ", d.comments)
		b.WriteString(yaml.Block(yaml.List(d.node), 2))
	}
	if w.doc.Tasks != nil {
		b.WriteString("\ntasks:\n" + yaml.Block(w.doc.Tasks, 2))
	}
	if w.doc.Conversation != nil {
		b.WriteString("\nconversation:\n" + yaml.Block(w.doc.Conversation, 2))
	}
	return []byte(b.String())
}

// writeComments writes comment lines above an entry.
func (w *writer) writeComments(b *strings.Builder, margin string, lines []string) {
	for _, line := range lines {
		if strings.HasPrefix(line, "Event types of ") && strings.Contains(line, "written by mcpe-gen import") {
			continue // an earlier import wrote this line
		}
		b.WriteString(strings.TrimRight(margin+"# "+oneLine(line), " ") + "\n")
	}
}

// oneLine joins the lines of third-party text for use in a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !yaml.Shown(r) {
			return ' '
		}
		return r
	}, s)
}
