package ir

// nameHelpers chooses the names of helpers for unions and events. If a schema already has the first form of a name, it
// uses the second form. Examples are a variant with the tag unknown, and an event push_event in addition to push. If
// the second form is also taken, an event has no such helper, and a union causes an error.
func (b *builder) nameHelpers(p *Package) {
	for _, d := range b.all {
		if d.Form == Union {
			d.VariantType = b.helper(d, "Variant", "VariantType")
			d.UnknownType = b.helper(d, "Unknown", "UnknownVariant")
		}
	}
	for _, f := range p.Files {
		for _, e := range f.Events {
			event := declared{"event " + e.Schema.Name, e.Schema.NameRange}
			e.NameConst = b.free(event, e.Prefix+"EventName", e.Prefix+"EventTypeName")
			e.EventAlias = b.free(event, e.Prefix+"Event", e.Prefix+"Occurrence")
			e.SubscriptionType = b.free(event, e.Prefix+"Subscription", e.Prefix+"EventSubscription")
		}
	}
}

// helper returns the name of a helper type of the union d.
func (b *builder) helper(d *Decl, first, second string) string {
	union := declared{"the union " + d.Name, d.At}
	if name := b.free(union, d.Name+first, d.Name+second); name != "" {
		return name
	}
	b.declare(b.names, d.Name+second, union.what, union.at)
	return ""
}

// free returns the first unused name, or "" if all are taken.
func (b *builder) free(by declared, names ...string) string {
	for _, name := range names {
		if _, taken := b.names[name]; !taken {
			b.names[name] = by
			return name
		}
	}
	return ""
}
