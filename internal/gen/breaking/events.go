package breaking

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A side is one version of an event type.
type side struct {
	*schema.Event
	of *Package
	in *comparison
}

// keyRange returns the range of a key of the event, or the range of the event's name if the key is absent.
func (s side) keyRange(key string) source.Range {
	r := s.NameRange
	if m := s.Node.Member(key); m != nil {
		r = m.KeyRange
	}
	return s.of.label(r)
}

// An eventRule checks an event type that exists in both versions.
type eventRule struct {
	rule.Rule
	check func(old, new side, report func(at source.Range, d source.Diagnostic))
}

// eventRemoved is the ID of the rule for removed events. It has no check function.
const eventRemoved = "EVENT_REMOVED"

var eventRules = []eventRule{
	{rule.Rule{ID: eventRemoved, Category: Wire, Purpose: "An event type was removed or renamed."}, nil},
	{rule.Rule{ID: "DELIVERY_WITHDRAWN", Category: Wire, Purpose: "An event type no longer supports a delivery mode."}, deliveryWithdrawn},
	{rule.Rule{ID: "REPLAY_WITHDRAWN", Category: Wire, Purpose: "An event type no longer has cursors to resume from."}, replayWithdrawn},
	{rule.Rule{ID: "STABILITY_LOWERED", Category: Wire, Purpose: "A stable event type became experimental."}, stabilityLowered},
	{rule.Rule{ID: "MATCH_CHANGED", Category: Wire, Purpose: "An argument selects other occurrences than before: its x-match was added, changed or removed."}, matchChanged},
	{rule.Rule{ID: "DEFAULT_CHANGED", Category: Wire, Purpose: "An argument that is left out means something else: its default was added, changed or removed."}, defaultChanged},
	{rule.Rule{ID: "PAYLOAD_DEFAULT_CHANGED", Category: Wire, Purpose: "A payload field that is left out means something else: its default was added, changed or removed."}, payloadDefaultChanged},
	{rule.Rule{ID: "INPUT_GO_TYPE_CHANGED", Category: Wire, Purpose: "An argument is read into another Go type of the author's choice, which may refuse what the schema allows."}, inputGoTypeChanged},
	{rule.Rule{ID: payloadGoType, Category: Wire, Purpose: "A payload field that is read into a Go type of the author's choice may have values that it did not have."}, nil},
	{rule.Rule{ID: "COALESCE_CHANGED", Category: Wire, Severity: source.Warning, Purpose: "Consumers join other events than before: the key of an event type's x-coalesce was changed or removed."}, coalesceChanged},
	{rule.Rule{ID: "PRIVATE_CHANGED", Category: Wire, Severity: source.Warning, Purpose: "Other callers see a payload field than before: its x-private was added or removed."}, privateChanged},
	{rule.Rule{ID: "READ_TOOL_CHANGED", Category: Wire, Purpose: "The read tool of an event type, or one of the arguments it adds, was renamed or removed (MCPE223)."}, readToolChanged},
}

// compareEvents compares every event type of an old package.
func (c *comparison) compareEvents(old *Package) {
	for _, f := range old.Set.Files {
		for _, e := range f.Events {
			if e.Stability == "experimental" {
				continue
			}
			was := side{e, old, c}
			is, ok := c.findEvent(old, e.Name)
			if !ok {
				c.removed(was)
				continue
			}
			for _, r := range eventRules {
				if r.check != nil {
					r.check(was, is, func(at source.Range, d source.Diagnostic) { c.report(r.ID, at, e.Name, e.Name, d) })
				}
			}
			c.compareSchemas(was, is)
		}
	}
}

// findEvent returns the event type with that name in the new version. It prefers the same package.
func (c *comparison) findEvent(old *Package, name string) (side, bool) {
	all := c.newSides()[name]
	for _, s := range all {
		if s.of.Key == old.Key {
			return s, true
		}
	}
	if len(all) == 0 {
		return side{}, false
	}
	return all[0], true
}

// newSides returns the new event types by name.
func (c *comparison) newSides() map[string][]side {
	if c.newEvents == nil {
		c.newEvents = byName(c.new)
	}
	return c.newEvents
}

func byName(packages []Package) map[string][]side {
	out := map[string][]side{}
	for i := range packages {
		for _, f := range packages[i].Set.Files {
			for _, e := range f.Events {
				out[e.Name] = append(out[e.Name], side{e, &packages[i], nil})
			}
		}
	}
	return out
}

func (c *comparison) removed(was side) {
	d := source.Diagnostic{Message: "the event type was removed", Hint: "keep it as deprecated: {replacedBy: NAME, removeAfter: DATE} for a while"}
	if by := c.successor(was); by != "" {
		d.Message = "the event type was removed, or renamed to " + by
		d.Hint = fmt.Sprintf("keep it next to the new event as deprecated: {replacedBy: %s, removeAfter: DATE} for a while", by)
	}
	if announced := was.Deprecated; announced != nil && announced.RemoveAfter != "" {
		if date, err := time.Parse(time.DateOnly, announced.RemoveAfter); err == nil && c.now.After(date.AddDate(0, 0, 1)) {
			d = source.Diagnostic{Severity: source.Note, Message: "the event type was removed after " + announced.RemoveAfter + ", as announced"}
		}
	}
	c.report(eventRemoved, was.of.label(was.NameRange), was.Name, was.Name, d)
}

// successor returns the name of a new event type with the same payload schema as a removed one, or "".
func (c *comparison) successor(was side) string {
	if c.added == nil {
		c.added = map[[sha256.Size]byte]string{}
		known := byName(c.old)
		for _, name := range slices.Sorted(maps.Keys(c.newSides())) {
			if len(known[name]) > 0 {
				continue
			}
			is := c.newSides()[name][0]
			payload := is.payloadHash()
			if _, taken := c.added[payload]; !taken {
				c.added[payload] = name
			}
		}
	}
	return c.added[was.payloadHash()]
}

// payloadHash returns the hash of the published payload schema.
func (s side) payloadHash() [sha256.Size]byte {
	return sha256.Sum256(s.of.Set.Published(s.Payload))
}

// compareSchemas compares the input and payload schemas of an event type with the rules of evolve.
func (c *comparison) compareSchemas(was, is side) {
	shared := func(s side) evolve.Side {
		return evolve.Side{Input: s.of.Set.Shared(s.Input), Payload: s.of.Set.Shared(s.Payload)}
	}
	between := [2]*Package{was.of, is.of}
	if c.versions[between] == nil {
		c.versions[between] = new(evolve.Versions)
	}
	for _, change := range c.versions[between].Differences(was.Name, shared(was), shared(is)) {
		if _, on := c.options.Rules.Level(c.rules[change.Rule]); !on && change.Feature != evolve.PayloadSchema {
			continue
		}
		root := func(s side) *source.Node {
			if change.Feature == evolve.InputSchema {
				return s.Input
			}
			return s.Payload
		}
		now, exact := locate(is.of.Set, root(is), change.Path)
		before, _ := locate(was.of.Set, root(was), change.Path)
		d := source.Diagnostic{Message: change.Reason}
		id := change.Rule
		if t, ok := chosenType(was, is, change); ok {
			id, d.Message = payloadGoType, change.Reason+"; clients read it as "+t+", which may refuse that"
		}
		switch {
		case !exact:
			d = d.WithRelated(was.of.label(nameRange(before)), "it was here")
		case !memberRules[change.Rule]:
			_, now = followEqual(was, is, before, now)
		}
		c.report(id, is.of.label(nameRange(now)), was.Name, was.Name+" "+change.Feature+change.Path, d)
	}
}

// memberRules is the set of rules that concern a member of an object instead of its value.
var memberRules = map[string]bool{
	"INPUT_REQUIRED_ADDED": true, "PAYLOAD_REQUIRED_REMOVED": true, "INPUT_NAME_CLAIMED": true, "PAYLOAD_FIELD_ADDED": true,
}

func modes(e side) []string {
	if len(e.Delivery) == 0 {
		return wire.DeliveryModes
	}
	return e.Delivery
}

func deliveryWithdrawn(old, new side, report func(source.Range, source.Diagnostic)) {
	kept := modes(new)
	lost := slices.DeleteFunc(slices.Clone(modes(old)), func(m string) bool { return slices.Contains(kept, m) })
	if len(lost) > 0 {
		report(new.keyRange("delivery"), source.Diagnostic{Message: "no longer supports " + strings.Join(lost, " and ")})
	}
}

func replayWithdrawn(old, new side, report func(source.Range, source.Diagnostic)) {
	if old.Replay && !new.Replay {
		report(new.keyRange("replay"), source.Diagnostic{Message: "cursors are null now: subscribers cannot resume where they left off"})
	}
}

func stabilityLowered(_, new side, report func(source.Range, source.Diagnostic)) {
	if new.Stability == "experimental" {
		report(new.keyRange("stability"), source.Diagnostic{Message: "was stable and is experimental: its subscribers were promised more"})
	}
}

func coalesceChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	was, is := old.Coalesce, new.Coalesce
	var text string
	switch {
	case was == nil: // nobody uses values that did not exist before
		return
	case is != nil && slices.Equal(was.Key, is.Key):
		return
	case is == nil:
		text = fmt.Sprintf("events were joined by %s, and a consumer that takes the type's values is refused", strings.Join(was.Key, " and "))
	default:
		text = fmt.Sprintf("events were joined by %s, and are by %s", strings.Join(was.Key, " and "), strings.Join(is.Key, " and "))
	}
	report(new.keyRange("x-coalesce"), source.Diagnostic{Message: text})
}

func equal(a, b *source.Node) bool {
	x, errX := wire.Canonical(a.JSON())
	y, errY := wire.Canonical(b.JSON())
	if errX != nil || errY != nil {
		return string(a.JSON()) == string(b.JSON())
	}
	return string(x) == string(y)
}

func readToolChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	was, is := old.ToolNames(), new.ToolNames()
	switch {
	case !hasTool(old):
		return
	case !hasTool(new):
		report(new.keyRange("inputSchema"), source.Diagnostic{Message: fmt.Sprintf("the read tool was %s and no longer exists", was.Name)})
		return
	case was.Name != is.Name:
		report(new.keyRange("x-tool-name"), source.Diagnostic{Message: fmt.Sprintf("the read tool was %s and is %s", was.Name, is.Name)})
	}
	for _, a := range []struct{ was, is string }{
		{was.Cursor, is.Cursor}, {was.MaxEvents, is.MaxEvents}, {was.Wait, is.Wait}, {was.Quiet, is.Quiet}, {was.Since, is.Since},
	} {
		if a.was != a.is {
			report(new.keyRange("x-tool-args"), source.Diagnostic{Message: fmt.Sprintf("the read tool's argument %s is called %s", a.was, a.is)})
		}
	}
}

// hasTool reports whether the event type has a read tool.
func hasTool(e side) bool { return toolschema.IsExtensible(e.of.Set.Published(e.Input)) }
