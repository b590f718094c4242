package docs

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A Change lists the differences between an event type and an older version of it.
type Change struct {
	// Event is the event type's name. Anchor is its HTML anchor, or empty if it was removed.
	Event, Anchor string
	Notes         []Note
}

// A Note is one difference.
type Note struct {
	// Text describes the difference.
	Text string
	// Breaking reports whether servers or clients of the old version can fail.
	Breaking bool
}

// Changes returns the differences between two versions by event. It lists the events of new in order, followed by the
// removed events. It flags the differences that package breaking reports.
func Changes(old, new Package) []Change {
	before, now := old.Model.Events, new.Model.Events
	broken := map[string][]Note{}
	for _, d := range breaking.Compare([]breaking.Package{{Set: old.Set}}, []breaking.Package{{Set: new.Set}}, breaking.Options{}) {
		if name := eventAt(d.Range, new.Set, old.Set); name != "" && d.Severity == source.Error {
			broken[name] = append(broken[name], Note{strings.TrimPrefix(d.Message, name+" "), true})
		}
	}
	c := &comparison{was: typesOf(old.Model), now: typesOf(new.Model)}
	var list []Change
	for _, e := range now {
		change := Change{Event: e.Name}
		if was := findEvent(before, e.Name); was == nil {
			change.Notes = []Note{{Text: "is new"}}
		} else {
			change.Notes = broken[e.Name]
			for _, text := range c.compatibleChanges(*was, e) {
				change.Notes = append(change.Notes, Note{Text: text})
			}
		}
		if len(change.Notes) > 0 {
			list = append(list, change)
		}
	}
	for _, e := range before {
		if findEvent(now, e.Name) == nil {
			list = append(list, Change{Event: e.Name, Notes: []Note{{"was removed", len(broken[e.Name]) > 0}}})
		}
	}
	return list
}

func findEvent(list []model.Event, name string) *model.Event {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}

// eventAt returns the name of the event that contains the start of the range, or "".
func eventAt(at source.Range, sets ...*schema.Set) string {
	for _, set := range sets {
		for _, f := range set.Files {
			for _, e := range f.Events {
				r := e.Node.Range
				if r.Start.File == at.Start.File && r.Start.Compare(at.Start) <= 0 && at.Start.Compare(r.End) <= 0 {
					return e.Name
				}
			}
		}
	}
	return ""
}

// A comparison contains the types of both versions.
type comparison struct{ was, now types }

// compatibleChanges returns the compatible changes, such as additions and changed descriptions.
func (c *comparison) compatibleChanges(was, now model.Event) []string {
	var list []string
	for _, part := range []struct {
		what     string
		was, now []Row
	}{
		{"argument ", c.was.rowsOf(was.Arguments), c.now.rowsOf(now.Arguments)},
		{"member ", c.was.rowsOf(was.Payload), c.now.rowsOf(now.Payload)},
	} {
		added := -1 // the depth of a new row, whose inner rows need no mention
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
	var more []string
	for _, m := range now.Delivery {
		if !slices.Contains(was.Delivery, m) {
			more = append(more, "can be delivered by "+m)
		}
	}
	if len(more) > 0 && len(now.Delivery) == len(modes) {
		more = []string{"can be delivered in every mode, no longer by " + strings.Join(was.Delivery, " and ") + " only"}
	}
	list = append(list, more...)
	if strings.TrimSpace(now.Description) != strings.TrimSpace(was.Description) {
		list = append(list, "has a new description")
	}
	return list
}
