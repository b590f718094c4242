package main

// postgresMutants are found by the campaign on PostgreSQL.
var postgresMutants = []mutant{
	{"no fence check", []change{{"runtime/store/postgres/functions.sql",
		"generation FROM @.store) FOR SHARE;\n	IF NOT FOUND THEN\n		RAISE EXCEPTION 'shard % of % is not held by %'",
		"generation FROM @.store) FOR SHARE;\n	IF false THEN\n		RAISE EXCEPTION 'shard % of % is not held by %'"}}, test{}, nil},
	{"lease clock disarmed", []change{{"runtime/internal/cluster/shard/lease.go",
		"func (o *Owner) judge(s *session, mono time.Duration, wall time.Time) bool {\n",
		"func (o *Owner) judge(s *session, mono time.Duration, wall time.Time) bool {\n	return true\n"}}, test{}, nil},
	{"deaf to others' changes", deaf, test{}, nil},
	{"outbox only of transactions that began after the last look", []change{
		{"runtime/internal/outbox/look.go", "	for _, tx := range w.since.active {\n		between(tx, tx)\n	}\n", ""},
		{"runtime/internal/outbox/look.go", "	if w.main.began == nil && now.Sub(w.whole) >= fullSweepInterval {\n", "	if w.whole.IsZero() {\n"}}, test{}, nil},
	{"relay that does not look for what was appended before", []change{{"runtime/outbox/pgoutbox/relay.go",
		"		group[i].Once = true\n", ""}}, test{}, relayArgs},
	{"relay that deletes before it appends", deletesFirst, test{}, relayArgs},
	{"deaf to others' revocations", []change{
		{"runtime/internal/operators/operate/obey.go", "		a.executeRevocation(ctx, &what)\n", ""},
		{"runtime/internal/operators/operate/obey.go", "	if what.Kind != orders.Revoke {\n", "	if what.Kind != \"\" {\n"}}, test{}, nil},
	{"pause forgotten at a takeover", []change{
		{"runtime/internal/webhooks/delivery/handle.go", "pausedAt: instantOf(s.PausedAt), ", ""}}, test{}, nil},
}

// Faults that are found on every engine.
var (
	deaf = []change{{"runtime/internal/webhooks/subscriber/sync.go",
		"func (w *Subscriptions) Changed(id string, of engine.Shard) {\n",
		"func (w *Subscriptions) Changed(id string, of engine.Shard) {\n	return\n"}}
	deletesFirst = []change{{"runtime/outbox/pgoutbox/relay.go",
		"			m := &mover{db: db{tx}, into: r.into, until: time.Now().Add(moveAllTimeout)}\n",
		`			m := &mover{db: db{tx}, into: r.into, until: time.Now().Add(moveAllTimeout)}
			for i := range rows {
				r.box.pool.Exec(ctx, r.box.qualify("DELETE FROM @.outbox WHERE id = ANY ($1)"), []int64{rows[i].ID()})
			}
`}}
)

// relayArgs are the arguments for the campaign with a relay.
var relayArgs = []string{"-relay"}
