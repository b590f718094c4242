package docs

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/gen/internal/parsed"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A Change is what is different in one event type from an older version.
type Change struct {
	// Event is the event type's name, Anchor its place in the page; empty when it has gone.
	Event, Anchor string
	Notes         []Note
}

// A Note is one difference.
type Note struct {
	// Text says what changed.
	Text string
	// Breaking tells that servers or clients that go by the old version may fail.
	Breaking bool
}

// Changes lists what is different in new, event by event: those of new in their order, then those
// that have gone. What the rules of package breaking find is marked.
func Changes(old, new *schema.Set) []Change {
	before, now := typesOf(old), typesOf(new)
	broken := map[string][]Note{}
	for _, d := range breaking.Compare([]breaking.Package{{Set: old}}, []breaking.Package{{Set: new}}, breaking.Options{}) {
		if e := around(append(slices.Clip(now), before...), d.Range); e != nil && d.Severity == source.Error {
			broken[e.Name] = append(broken[e.Name], Note{strings.TrimPrefix(d.Message, e.Name+" "), true})
		}
	}
	known := [2]*parsed.Schemas{{}, {}}
	var list []Change
	for _, e := range now {
		c := Change{Event: e.Name}
		if was := find(before, e.Name); was == nil {
			c.Notes = []Note{{Text: "is new"}}
		} else {
			c.Notes = broken[e.Name]
			for _, text := range compatible(known, old, was, new, e) {
				c.Notes = append(c.Notes, Note{Text: text})
			}
		}
		if len(c.Notes) > 0 {
			list = append(list, c)
		}
	}
	for _, e := range before {
		if find(now, e.Name) == nil {
			list = append(list, Change{Event: e.Name, Notes: []Note{{"was removed", len(broken[e.Name]) > 0}}})
		}
	}
	return list
}

func typesOf(set *schema.Set) []*schema.Event {
	var all []*schema.Event
	for _, f := range set.Files {
		all = append(all, f.Events...)
	}
	return all
}

func find(list []*schema.Event, name string) *schema.Event {
	for _, e := range list {
		if e.Name == name {
			return e
		}
	}
	return nil
}

// around is the event whose text the range lies in.
func around(list []*schema.Event, at source.Range) *schema.Event {
	for _, e := range list {
		r := e.Node.Range
		if r.Start.File == at.Start.File && r.Start.Compare(at.Start) <= 0 && at.Start.Compare(r.End) <= 0 {
			return e
		}
	}
	return nil
}

// compatible lists what was added or said differently.
func compatible(known [2]*parsed.Schemas, old *schema.Set, was *schema.Event, new *schema.Set, now *schema.Event) []string {
	var list []string
	for _, part := range []struct {
		what     string
		was, now []Row
	}{
		{"argument ", rows(known[0], old.Shared(was.Input)), rows(known[1], new.Shared(now.Input))},
		{"member ", rows(known[0], old.Shared(was.Payload)), rows(known[1], new.Shared(now.Payload))},
	} {
		added := -1 // the depth of a new row, whose inner rows go without saying
		for _, r := range part.now {
			i := slices.IndexFunc(part.was, func(o Row) bool { return o.Path == r.Path && o.Variant == r.Variant && o.Within == r.Within })
			if added >= 0 && r.Depth > added {
				continue
			}
			added = -1
			switch {
			case i < 0 && r.Variant == "":
				list, added = append(list, part.what+r.Path+" is new"), r.Depth
			case i < 0:
				list, added = append(list, "member "+r.Path+" has a new alternative, "+r.Variant), r.Depth
			case r.Deprecated && !part.was[i].Deprecated:
				list = append(list, part.what+r.Path+" is deprecated")
			default:
				for _, v := range r.Values {
					if !slices.Contains(part.was[i].Values, v) && len(part.was[i].Values) > 0 {
						list = append(list, part.what+r.Path+" may be "+v)
					}
				}
			}
		}
	}
	if now.Deprecated != nil && was.Deprecated == nil {
		list = append(list, "is deprecated")
	}
	if now.Stability == "stable" && was.Stability == "experimental" {
		list = append(list, "is stable")
	}
	for _, m := range now.Delivery {
		if len(was.Delivery) > 0 && !slices.Contains(was.Delivery, m) {
			list = append(list, "can be delivered by "+m)
		}
	}
	if len(now.Delivery) == 0 && len(was.Delivery) > 0 {
		list = append(list, "can be delivered in every mode, no longer by "+strings.Join(was.Delivery, " and ")+" only")
	}
	if strings.TrimSpace(now.Description) != strings.TrimSpace(was.Description) {
		list = append(list, "is described anew")
	}
	return list
}
