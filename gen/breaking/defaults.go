package breaking

import (
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// maxDefaultDepth bounds how deep defaults are compared, which ends recursive schemas.
const maxDefaultDepth = 12

func defaultChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	d := defaults{old: old, new: new, what: "argument", report: report}
	d.compare([]*source.Node{old.Input}, []*source.Node{new.Input}, "", nil)
}

func payloadDefaultChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	d := defaults{old: old, new: new, what: "payload field", report: report}
	d.compare([]*source.Node{old.Payload}, []*source.Node{new.Payload}, "", nil)
}

// defaults compares the defaults of the members that two schemas have in common.
type defaults struct {
	old, new side
	what     string
	report   func(source.Range, source.Diagnostic)
}

// compare goes through the members that both objects declare, and through elements and values of maps.
// Where a pair of schemas holds itself, it is looked at once.
func (d *defaults) compare(before, after []*source.Node, path string, within [][2]*source.Node) {
	pair := [2]*source.Node{before[0], after[0]}
	if slices.Contains(within, pair) || len(within) > maxDefaultDepth {
		return
	}
	within = append(slices.Clip(within), pair)
	kept := names(d.new, after)
	for _, name := range names(d.old, before) {
		if !slices.Contains(kept, name) {
			continue // a finding of its own
		}
		tokens := []string{"properties", name}
		was, is := step(d.old.of.Set, before, tokens), step(d.new.of.Set, after, tokens)
		if !d.required(d.new, after, name) || !d.required(d.old, before, name) {
			d.member(path+wire.Pointer(name), was, is)
		}
		d.compare(was, is, path+wire.Pointer(name), within)
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		was, is := step(d.old.of.Set, before, []string{keyword}), step(d.new.of.Set, after, []string{keyword})
		if len(was) > 0 && len(is) > 0 {
			d.compare(was, is, path+wire.Pointer("*"), within)
		}
	}
}

// member compares the default of one member, which may be left out.
func (d *defaults) member(path string, before, after []*source.Node) {
	was, is := defaultOf(d.old, before), defaultOf(d.new, after)
	name := path[1:]
	switch {
	case was == nil && is == nil:
	case is == nil:
		d.report(d.new.of.label(place(after[0])), source.Diagnostic{Message: fmt.Sprintf("%s %q no longer has the default %s", d.what, name, was.JSON())})
	case was == nil:
		d.report(d.new.of.label(is.Range), source.Diagnostic{Message: fmt.Sprintf("%s %q has the default %s now; left out it had none", d.what, name, is.JSON())})
	case !equal(was, is):
		d.report(d.new.of.label(is.Range), source.Diagnostic{Message: fmt.Sprintf("the default of %s %q went from %s to %s", d.what, name, was.JSON(), is.JSON())})
	}
}

// required reports whether the objects require a member.
func (d *defaults) required(of side, objects []*source.Node, name string) bool {
	for _, n := range objects {
		for _, view := range of.of.Set.Views(n) {
			list := view.Get("required")
			if list != nil && slices.ContainsFunc(list.Items, func(r *source.Node) bool { return r.Text == name }) {
				return true
			}
		}
	}
	return false
}

// names returns the members that the objects declare, in the order in which they are written.
func names(of side, objects []*source.Node) []string {
	var out []string
	seen := map[string]bool{}
	for _, n := range objects {
		for _, view := range of.of.Set.Views(n) {
			if p := view.Get("properties"); p != nil {
				for _, m := range p.Members {
					if !seen[m.Key] {
						seen[m.Key] = true
						out = append(out, m.Key)
					}
				}
			}
		}
	}
	return out
}

// defaultOf is the default that the schemas of one member give it, nil for none.
func defaultOf(of side, schemas []*source.Node) *source.Node {
	for _, n := range schemas {
		for _, view := range of.of.Set.Views(n) {
			if v := view.Get("default"); v != nil {
				return v
			}
		}
	}
	return nil
}
