package main

// module returns a test in the module of the JetStream store.
func module(run string) test { return test{"runtime/store/jetstream", ".", run} }

const js = "runtime/store/jetstream/"

// jetStreamMutants are found by tests, most of them in the module of the JetStream store. Each test directly creates a
// situation that a campaign would reach only by chance.
var jetStreamMutants = []mutant{
	{"retry without expectation", []change{
		{js + "append.go", "	n, err := s.publish(ctx, w.subject, w.body, w.expect)\n",
			"	expect := w.expect\n	if w.unsure { // a lost answer\n		expect = beyond\n	}\n	n, err := s.publish(ctx, w.subject, w.body, expect)\n"},
		{js + "wire.go", "	return s.publishAcknowledged(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{\n",
			"	if expect == beyond {\n		return s.publishAcknowledged(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{}})\n	}\n" +
				"	return s.publishAcknowledged(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{\n"}},
		module("^TestLostAnswer$"), nil},
	{"undecided taken for fenced", []change{
		{js + "owned.go", "	if first > 0 {\n		first++\n	}\n", "	if first > 0 {\n		first++\n	}\n	if errors.Is(err, errUndecided) {\n		err = engine.ErrFenced\n	}\n"},
		{js + "owned.go", "	\"encoding/json\"\n", "	\"encoding/json\"\n	\"errors\"\n"},
		{js + "records.go", "	return (errors.Is(err, ErrUnreachable) || errors.Is(err, errUndecided)) &&", "	return errors.Is(err, ErrUnreachable) &&"}},
		module("^TestBusyShard$"), nil},
	{"owner's write without its hold", []change{{js + "owned.go",
		"		return append([]write{{subject: touch, of: held, on: is.sequence}}, writes...), nil\n",
		"		return append([]write{{subject: touch, blind: true}}, writes...), nil\n"}},
		module("^TestLateWrites$"), nil},
	{"fence checked by a read", []change{
		{js + "owned.go", "		return append([]write{{subject: touch, of: held, on: is.sequence}}, writes...), nil\n",
			"		if again, err := s.state.read(ctx, true, held); err != nil || again.of(held).sequence != is.sequence {\n			return nil, errUnproven\n		}\n" +
				"		return append([]write{{subject: touch, blind: true}}, writes...), nil\n"}},
		module("^TestLateWrites$"), nil},
	{"end of a lease without expectation", []change{{js + "leases.go",
		"		return []write{remove(x)}, nil\n	})\n	if err != nil || known {\n",
		"		w := remove(x)\n		w.blind = true\n		return []write{w}, nil\n	})\n	if err != nil || known {\n"}},
		module("^TestRenewalBeforeJudgement$"), nil},
	{"relay that deletes before it appends", deletesFirst, test{".", "./runtime/outbox/pgoutbox", "^TestOB1Crash$"}, nil},
	{"deaf to others' changes", deaf, test{".", "./runtime/internal/testkit/clustertest", "^TestMemory$/a_refresh_elsewhere"}, nil},
	{"own lease by the replica's wall clock", []change{{"runtime/internal/cluster/shard/lease.go",
		"	if drift := wall.Sub(s.wall) - (mono - s.asked); drift > maxDrift || drift < -maxDrift {\n		why = \"wall and monotonic clock have drifted apart\"\n	} else if mono >= s.ends {\n",
		"	if wall.Sub(s.wall) >= s.ends-s.asked {\n"}},
		test{".", "./runtime/internal/cluster/shard", "^TestREP8Drift$"}, nil},
	{"others' leases by the replica's clock", []change{{js + "leases.go", "		v.now = r.stamp\n", "		v.now = s.clock.now()\n"}}, module("^TestLeaseByStamps$"), nil},
	{"look without a barrier", []change{{js + "follow.go",
		"	err := l.checkHead(ctx, true)\n", "	err := l.checkHead(ctx, false)\n"}},
		module("^TestMinority$"), nil},
	{"Seen moved by a plain INFO", []change{{js + "log.go",
		"	if info, err = s.provenInfo(ctx, stream); err != nil {\n		return nil, err\n	}\n	l := &Log",
		"	if info, err = s.leaderInfo(ctx, stream); err != nil {\n		return nil, err\n	}\n	l := &Log"}},
		module("^TestOpenLogProves$"), nil},
	{"an answer without its proof used", []change{{js + "reading.go",
		"			if x := found[c.proof]; proven && x.sequence < at {\n", "			if x := found[c.proof]; proven && at == 0 {\n"}},
		module("^TestServerBehind$"), nil},
	{"scan without its proof", []change{{js + "reading.go", "		for seen := false; ; {\n", "		for seen := true; ; {\n"}},
		module("^TestServerBehind$"), nil},
	{"scan without the hold", []change{{js + "owned.go", "	if h != nil && h.Fence != 0 {\n		prove = func(", "	if h != nil && h.Fence == 1 {\n		prove = func("}},
		module("^TestLateWrites$"), nil},
	{"no response taken for a new epoch", []change{{js + "append.go",
		"		if over := w.l.checkHead(ctx, false); errors.Is(over, engine.ErrNewEpoch) {\n			return false, over\n		}\n		return true, err\n",
		"		return false, engine.ErrNewEpoch\n"}},
		module("^TestMinority$"), nil},
	{"the count of all not in the batch", []change{{js + "subscriptions.go",
		"	w, err := addToCounter(r.of(all), total)\n	return append(writes, w), err\n", "	w, err := addToCounter(r.of(all), total)\n	w.blind = true\n	return append(writes, w), err\n"}},
		module("^TestLateAdmission$"), nil},
	{"mark before progress", []change{{"runtime/internal/webhooks/delivery/persist.go",
		"	for i := 0; i < len(snap.updates); i += batch {\n",
		"	for l, to := range snap.marks {\n		if err := s.o.Store.SaveMark(ctx, l.name, to); err != nil {\n			return err\n		}\n	}\n" +
			"	for i := 0; i < len(snap.updates); i += batch {\n"}},
		test{".", "./runtime/internal/webhooks/delivery", "^TestREP10MarkComesLast$"}, nil},
	{"epoch not in the subjects", []change{
		{js + "log.go", "	c.Subjects = []string{s.o.Namespace + \".l.\" + short + \".\" + token + \".*\"}\n", "	c.Subjects = []string{s.o.Namespace + \".l.\" + short + \".x.*\"}\n"},
		{js + "log.go", "	subject := s.o.Namespace + \".l.\" + short + \".\" + c.Metadata[metaEpoch] + \".*\"\n", "	subject := s.o.Namespace + \".l.\" + short + \".x.*\"\n"},
		{js + "append.go", "	return l.s.o.Namespace + \".l.\" + l.short + \".\" + token + \".\" + id\n", "	return l.s.o.Namespace + \".l.\" + l.short + \".x.\" + id\n"}},
		module("^TestLateAppend$"), nil},
	{"published positions not compared", []change{{js + "follow.go",
		"	return was != \"\" && was != raftGroup(info) || end < head || end == head && !stamp.IsZero() && info.State.Msgs > 0 && !last.Equal(stamp)\n",
		"	_ = end\n	return was != \"\" && was != raftGroup(info)\n"}},
		module("^TestRestored$"), nil},
	{"witness not compared", []change{{js + "log.go", "		lost, err := s.hasLostWitnessed(ctx, seen, info)\n", "		lost, err := false, error(nil)\n"}}, module("^TestWitness$"), nil},
	{"generation not in the progress", []change{
		{js + "subscriptions.go", "	return recordSubject(at, id) + \".\" + strconv.FormatUint(generation, 16)\n", "	return recordSubject(at, id) + \".1\"\n"}},
		module("^TestEarlierGeneration$"), nil},
	{"reconnect buffer on", []change{{js + "jetstream.go", "		nats.ReconnectBufSize(-1), // a message is either sent or known to be unsent\n", ""}},
		module("^TestUnsent$"), nil},
	{"tail without looks", []change{{js + "follow.go", "	for s.pause(s.o.Poll) {\n", "	for s.pause(s.o.Poll) && s.o.Poll < 0 {\n"}},
		module("^TestTwoOpeners$"), nil},
	{"one replica not refused", []change{{js + "log.go",
		"		return fmt.Errorf(\"%w: %s is on %d servers, not on %d\", ErrReplicas, c.Name, c.Replicas, s.replicas())\n", "		return nil\n"}},
		module("^TestForeign$"), nil},
}
