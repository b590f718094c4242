package breaking

import (
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
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
		w.compareMember = func(name string, _, member *schemaPair) []remark {
			was, is := schema.FindKeyword(member.before.views, "x-private"), schema.FindKeyword(member.after.views, "x-private")
			at, words := nameRange(member.after.schemas[0]), "payload field %q was private, and all callers see it now"
			switch {
			case (was == nil) == (is == nil):
				return nil
			case is != nil:
				at, words = is.Parent.Member("x-private").KeyRange, "payload field %q is private now: callers no longer receive it unless PerPrincipal returns it"
			}
			return []remark{{wire.Pointer(name), new.of.label(at), func(path string) string { return fmt.Sprintf(words, path[1:]) }}}
		}
	}).run(old.Payload, new.Payload, report)
}

// compareDefaults returns a walk that compares the defaults of members present in both versions.
func compareDefaults(old, new side, what string) *walk {
	return old.in.walk(old, new, what+" defaults", func(w *walk) {
		w.compareMember = func(name string, object, member *schemaPair) []remark {
			if schema.Requires(object.after.views, name) && schema.Requires(object.before.views, name) {
				return nil
			}
			return defaultRemark(new, what, name, member)
		}
	})
}

// defaultRemark returns a remark if the default of an optional member changed.
func defaultRemark(new side, what, name string, member *schemaPair) []remark {
	was, is := schema.FindKeyword(member.before.views, "default"), schema.FindKeyword(member.after.views, "default")
	found := func(at source.Range, words string) []remark {
		return []remark{{wire.Pointer(name), new.of.label(at), func(path string) string { return fmt.Sprintf(words, what, path[1:]) }}}
	}
	quoted := func(n *source.Node) string { return strings.ReplaceAll(string(n.JSON()), "%", "%%") }
	switch {
	case was == nil && is == nil || was != nil && is != nil && equal(was, is):
		return nil
	case is == nil:
		return found(nameRange(member.after.schemas[0]), "%s %q no longer has the default "+quoted(was))
	case was == nil:
		return found(is.Range, "%s %q has the default "+quoted(is)+" now; left out it had none")
	}
	return found(is.Range, "the default of %s %q went from "+quoted(was)+" to "+quoted(is))
}
