package lint

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

func keywordWithoutEffect(p *pass) {
	for _, s := range p.sites {
		types := schematree.Declared(s.node)
		for _, m := range s.node.Members {
			k, known := schematree.Any.Keyword(m.Key)
			if !known || k.Checks&types != 0 || m.Key == "format" { // MCPE131 is about formats
				continue
			}
			hint := "remove it, or correct the type"
			if meant := matchingBound(m.Key, types); meant != "" {
				hint = "write " + meant + ", or correct the type"
			}
			p.addFinding(m.KeyRange, s.event, hint, "%s checks values of type %s only, and this is of type %s: it has no effect", m.Key, k.Checks, types)
		}
	}
}

// matchingBound returns the counterpart of a bound keyword for one of the types. It returns "" if none of the types has
// bounds.
func matchingBound(keyword string, types schematree.Types) string {
	for _, pair := range schematree.Bounds {
		i := slices.Index(pair[:], keyword)
		if i < 0 {
			continue
		}
		for _, other := range schematree.Bounds {
			if k, _ := schematree.Any.Keyword(other[i]); k.Checks&types != 0 {
				return other[i]
			}
		}
	}
	return ""
}
