package lint

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func coalesceKeyOptional(p *pass) {
	for _, e := range p.Events {
		if e.Coalesce == nil {
			continue
		}
		for _, key := range e.Coalesce.Key {
			here := []*source.Node{e.Payload}
			tokens, _ := wire.SplitPointer(key)
			for i, token := range tokens {
				if !schema.Requires(p.set.Views(here...), token) {
					_, at := e.Node.Get("x-coalesce").Key()
					p.addFinding(at, e, "add it to required", "%s of the key may be absent: %q is not required", key, token)
					break
				}
				here = p.set.At(e.Payload, tokens[:i+1])
			}
		}
	}
}
