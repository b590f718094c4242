package breaking

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func matchChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	for _, is := range new.Match {
		tied := slices.ContainsFunc(old.Match, func(m schema.MatchRule) bool { return m.Argument == is.Argument })
		if _, known := locate(old.of.Set, old.Input, wire.Pointer("properties", is.Argument)); known && !tied {
			report(new.of.label(is.Range), source.Diagnostic{
				Message: fmt.Sprintf("argument %q is tied to %s of the payload now: who gives it receives fewer occurrences", is.Argument, is.Path)})
		}
	}
	for _, was := range old.Match {
		i := slices.IndexFunc(new.Match, func(m schema.MatchRule) bool { return m.Argument == was.Argument })
		n, kept := locate(new.of.Set, new.Input, wire.Pointer("properties", was.Argument))
		switch {
		case !kept: // another rule reports it
		case i < 0:
			report(new.of.label(nameRange(n)), source.Diagnostic{Message: fmt.Sprintf("argument %q is no longer tied to %s of the payload", was.Argument, was.Path)})
		default:
			is := new.Match[i]
			if e := effectOf(was, is); e != same {
				report(new.of.label(is.Range), source.Diagnostic{Message: fmt.Sprintf("argument %q was tied to %s by %s, and is to %s by %s: who gives it receives %s occurrences",
					was.Argument, was.Path, was.Words(), is.Path, is.Words(), e)})
			}
		}
	}
}

// An effect describes how a changed x-match affects the events that an argument selects.
type effect int

const (
	same effect = iota
	fewer
	more
	other
)

// String returns the effect as an adjective for messages.
func (e effect) String() string { return [...]string{"the same", "fewer", "more", "other"}[e] }

// combine returns the combined effect of two changes.
func (e effect) combine(with effect) effect {
	switch {
	case e == with || with == same:
		return e
	case e == same:
		return with
	}
	return other
}

// effectOf returns the effect of a changed rule on any argument and payload.
func effectOf(was, is schema.MatchRule) effect {
	if was.Not != is.Not {
		return other
	}
	e := operators(was.Op, is.Op).combine(paths(was.Path, is.Path))
	switch {
	case was.Not && e == fewer:
		return more
	case was.Not && e == more:
		return fewer
	}
	return e
}

// broaderOperators maps operators to operators that select at least the same events.
var broaderOperators = map[string][]string{
	"equal": {"prefix", "lte", "gte"},
	"lt":    {"lte"},
	"gt":    {"gte"},
}

func operators(was, is string) effect {
	older := map[string]string{"min": "gte", "max": "lte"}
	was, is = cmp.Or(older[was], was), cmp.Or(older[is], is)
	switch {
	case was == is:
		return same
	case slices.Contains(broaderOperators[was], is):
		return more
	case slices.Contains(broaderOperators[is], was):
		return fewer
	}
	return other
}

// paths compares two paths. A * includes every index.
func paths(was, is string) effect {
	if was == is {
		return same
	}
	from, _ := wire.SplitPointer(was)
	to, _ := wire.SplitPointer(is)
	if len(from) != len(to) {
		return other
	}
	e := same
	for i := range from {
		switch {
		case from[i] == to[i]:
		case to[i] == "*" && isIndex(from[i]):
			e = e.combine(more)
		case from[i] == "*" && isIndex(to[i]):
			e = e.combine(fewer)
		default:
			return other
		}
	}
	return e
}

func isIndex(token string) bool {
	_, err := strconv.ParseUint(token, 10, 31)
	return err == nil
}
