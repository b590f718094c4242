package postgres

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// An announcement contains entries of one log to deliver to Appended.
type announcement struct {
	group []*appendCall
	fresh bool          // some of the group's entries are new
	run   []store.Entry // the last consecutive entries; earlier ones must be read from the database
	to    store.Position
}

// add adds the appends of a transaction, and the entries that it has read or appended.
func (a *announcement) add(p *logPart) {
	run := p.others
	for _, c := range p.group {
		if a.to = max(a.to, c.result.position); c.result.fresh {
			c.entry.Position, a.fresh = c.result.position, true
			run = appendRun(run, c.entry)
		}
	}
	a.group = append(a.group, p.group...)
	if len(a.run) == 0 {
		a.run = run
	} else if len(run) > 0 {
		a.run = appendRun(a.run, run...)
	}
}

// appendRun appends consecutive entries to a run. If they do not follow it, they begin a new run.
func appendRun(run []store.Entry, entries ...store.Entry) []store.Entry {
	if n := len(run); n > 0 && run[n-1].Position+1 != entries[0].Position {
		return slices.Clone(entries)
	}
	return append(run, entries...)
}

// announce delivers the entries of one or more transactions in order and completes their appends. A log that must be
// read first, or that another goroutine is reading, does not delay the other logs.
func (c *committer) announce(parts []*logPart) {
	all := map[*Log]*announcement{}
	for _, p := range parts {
		if all[p.log] == nil {
			all[p.log] = &announcement{}
		}
		all[p.log].add(p)
	}
	for l, a := range all {
		if a.fresh {
			c.s.tail.markAppended(l.id)
		}
		if l.tryDeliver(a.to, a.run) {
			answer(a.group, nil)
			continue
		}
		c.wg.Go(func() { answer(a.group, l.announce(a.run, a.to)) })
	}
}
