package breaking

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func defaultChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	compareDefaults(old, new, "argument").run(old.Input, new.Input, report)
}

func payloadDefaultChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	compareDefaults(old, new, "payload field").run(old.Payload, new.Payload, report)
}

// privateChanged compares the x-private of payload fields present in both versions.
func privateChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	old.in.walk(old, new, "private members", func(w *walk) {
		w.compare = func(_, _ []*source.Node) ([]remark, bool) { return nil, true }
		w.compareMember = func(name string, _, _, before, after []*source.Node) []remark {
			was, is := old.of.Set.PrivateSchema(before...), new.of.Set.PrivateSchema(after...)
			at, words := nameRange(after[0]), "payload field %q was private, and all callers see it now"
			switch {
			case (was == nil) == (is == nil):
				return nil
			case is != nil:
				at, words = is.Member("x-private").KeyRange, "payload field %q is private now: callers no longer receive it unless PerPrincipal returns it"
			}
			return []remark{{wire.Pointer(name), new.of.label(at), func(path string) string { return fmt.Sprintf(words, path[1:]) }}}
		}
	}).run(old.Payload, new.Payload, report)
}

// compareDefaults returns a walk that compares the defaults of members present in both versions.
func compareDefaults(old, new side, what string) *walk {
	return old.in.walk(old, new, what+" defaults", func(w *walk) {
		w.compare = func(_, _ []*source.Node) ([]remark, bool) { return nil, true }
		w.compareMember = func(name string, before, after, was, is []*source.Node) []remark {
			if isRequired(new, after, name) && isRequired(old, before, name) {
				return nil
			}
			return defaultRemark(old, new, what, name, was, is)
		}
	})
}

// defaultRemark returns a remark if the default of an optional member changed.
func defaultRemark(old, new side, what, name string, before, after []*source.Node) []remark {
	was, is := defaultOf(old, before), defaultOf(new, after)
	found := func(at source.Range, words string) []remark {
		return []remark{{wire.Pointer(name), new.of.label(at), func(path string) string { return fmt.Sprintf(words, what, path[1:]) }}}
	}
	quoted := func(n *source.Node) string { return strings.ReplaceAll(string(n.JSON()), "%", "%%") }
	switch {
	case was == nil && is == nil || was != nil && is != nil && equal(was, is):
		return nil
	case is == nil:
		return found(nameRange(after[0]), "%s %q no longer has the default "+quoted(was))
	case was == nil:
		return found(is.Range, "%s %q has the default "+quoted(is)+" now; left out it had none")
	}
	return found(is.Range, "the default of %s %q went from "+quoted(was)+" to "+quoted(is))
}

// isRequired reports whether any of the object schemas requires the member.
func isRequired(of side, objects []*source.Node, name string) bool {
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

// memberNames returns the members that the object schemas declare, in source order.
func memberNames(of side, objects []*source.Node) []string {
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

// defaultOf returns the default that the schemas of a member declare, or nil.
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
