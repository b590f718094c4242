package ir

import (
	"cmp"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/provider"
)

// declareIngress declares the names for the services that send webhooks. It reserves the names even if ingress is not
// emitted.
func (b *builder) declareIngress(p *Package) {
	byName := map[string]*Ingress{}
	for _, e := range p.Events() {
		from := e.Schema.From
		if from == nil {
			continue
		}
		in := byName[from.Provider]
		if in == nil {
			service, _ := provider.Lookup(from.Provider)
			in = &Ingress{Name: service.GoName + "Ingress", Provider: service}
			byName[from.Provider] = in
			p.Ingress = append(p.Ingress, in)
			b.declareName(b.serverNames, in.Name, "the webhooks of "+service.Title, from.Range)
		}
		in.Events = append(in.Events, e)
	}
	slices.SortFunc(p.Ingress, func(a, b *Ingress) int { return cmp.Compare(a.Name, b.Name) })
}
