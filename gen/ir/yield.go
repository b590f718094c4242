package ir

// yield names what an event adds for convenience. These names are no reason to refuse a package: where a
// schema takes one, as push_event does beside the event push, the second form is tried, and where that is
// taken too the package does without.
func (b *builder) yield(p *Package) {
	for _, f := range p.Files {
		for _, e := range f.Events {
			e.NameConst = b.free(e, e.Prefix+"EventName", e.Prefix+"EventTypeName")
			e.EventAlias = b.free(e, e.Prefix+"Event", e.Prefix+"Occurrence")
			e.SubscriptionType = b.free(e, e.Prefix+"Subscription", e.Prefix+"EventSubscription")
		}
	}
}

// free takes the first of the names that nothing else has.
func (b *builder) free(e *Event, names ...string) string {
	for _, name := range names {
		if _, taken := b.names[name]; !taken {
			b.names[name] = declared{"event " + e.Schema.Name, e.Schema.NameRange}
			return name
		}
	}
	return ""
}
