package ir

// nameHelpers chooses the names of helper declarations for unions and events. If the first choice is taken, it uses the
// second choice. This occurs for a variant with the tag unknown, or for the events push and push_event. If the second
// choice is also taken, it omits the helper of an event, and reports an error for a union.
func (b *builder) nameHelpers(p *Package) {
	for _, d := range b.all {
		if d.Form == Union {
			d.VariantType = b.helperName(d, "Variant", "VariantType")
			d.UnknownType = b.helperName(d, "Unknown", "UnknownVariant")
		}
	}
	for _, e := range p.Events() {
		event := declared{"event " + e.Schema.Name, e.Schema.NameRange}
		e.NameConst = b.claimName(event, e.Prefix+"EventName", e.Prefix+"EventTypeName")
		e.EventAlias = b.claimName(event, e.Prefix+"Event", e.Prefix+"Occurrence")
	}
}

// helperName returns the name for a helper type of the union d. It reports an error if both names are taken.
func (b *builder) helperName(d *Decl, first, second string) string {
	union := declared{"the union " + d.Name, d.At}
	if name := b.claimName(union, d.Name+first, d.Name+second); name != "" {
		return name
	}
	b.declareName(b.names, d.Name+second, union.what, union.at)
	return ""
}

// claimName reserves and returns the first unused name. If all names are taken, it returns "".
func (b *builder) claimName(by declared, names ...string) string {
	for _, name := range names {
		if _, taken := b.names[name]; !taken {
			b.names[name] = by
			return name
		}
	}
	return ""
}
