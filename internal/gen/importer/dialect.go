package importer

import (
	"maps"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// checkDialects removes each unsupported $schema if the options specify a dialect. Otherwise, it reports an error for
// each unsupported dialect and returns false.
func (w *writer) checkDialects() bool {
	strange := map[string][]source.Range{}
	if d := w.doc.Dialect; d != nil && w.o.Dialect == "" {
		if schema.ValidDialect(d.Text) {
			w.o.Dialect = d.Text
		} else {
			strange[d.Text] = append(strange[d.Text], d.Range)
		}
	}
	for _, d := range w.allDrafts() {
		for _, n := range d.schemas() {
			s := n.Get("$schema")
			if s == nil || s.Kind != source.String || schema.ValidDialect(s.Text) {
				continue
			}
			if w.o.Dialect != "" {
				n.Members = slices.DeleteFunc(n.Members, func(m source.Member) bool { return m.Key == "$schema" })
				continue
			}
			strange[s.Text] = append(strange[s.Text], w.knownRange(d.at))
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(strange)) {
		at := strange[uri]
		w.found = append(w.found, source.New("MCPE132", at[0], "the dialect %q is not supported; schemas that use it, starting here: %d", uri, len(at)).
			WithHint("--dialect draft-07 reads them as draft-07, --dialect 2020-12 as 2020-12"))
	}
	return len(strange) == 0
}
