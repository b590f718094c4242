package main

import "time"

// benchRestart measures the start of a server with 100,000 webhook subscriptions in SQLite. Ten of them match the
// emitted events. It measures the time until the server listens, and the time until the first delivery of an event
// emitted afterwards.
func benchRestart(b *bench) {
	receiver := b.start("receiver")
	dir := b.tempDir()
	const few, many = 10, 100_000
	p := b.start("webhook", receiver.base, dir, 0)
	b.subscribe(p, few, "hooks", matching)
	b.subscribe(p, many-few, "others", notMatching)
	var started, delivered []float64
	for range b.rounds {
		b.tell(p, "/admin/close")
		p.stop()
		before := b.counts(receiver)
		begin := time.Now()
		p = b.start("webhook", receiver.base, dir, 0)
		started = append(started, time.Since(begin).Seconds())
		b.emit(p, 1)
		b.waitRequests(receiver, before.Requests+1)
		delivered = append(delivered, time.Since(begin).Seconds())
		// Wait for the remaining deliveries, so that they are not counted for the next restart.
		b.waitRequests(receiver, before.Requests+few)
	}
	b.within("start with 100,000 webhook subscriptions in SQLite", started, 3, duration)
	b.within("first delivery after it", delivered, 5, duration)
	firstByte(b, p, "100,000 subscriptions in SQLite")
}
