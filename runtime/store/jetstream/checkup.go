package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/internal/monitor"
)

// What is worth a word in a checkup.
const (
	payloadWarn = 512 << 10        // of max_payload: a webhook's payload has up to 252 KiB, besides meta and targets (JS-15)
	skewWarn    = time.Second      // of clocks
	staleWarn   = 30 * time.Second // since a server has heard of a stream
	leaseTrips  = 20               // rounds that a lease should last
	trips       = 5
	perEntry    = 180             // bytes of heap of a server for an entry (F11)
	streamTime  = 5 * time.Second // that a stream may be without a leader
)

// A Checkup is what [Examine] is asked for beside the options of a store.
type Checkup struct {
	// Lease is that of the servers (server.Options.Replica.Lease).
	Lease time.Duration
}

// Examine looks at the servers and streams of a store and says what is wrong with them, as the user that it connects as. It
// changes nothing and writes nothing, and reads no payloads, arguments and secrets. An error means that there is no
// report: no server takes a connection.
func Examine(ctx context.Context, url string, o Options, c Checkup) (*checkup.Report, error) {
	// A subscription that is refused says so.
	o.Connect = append(slices.Clone(o.Connect), nats.PermissionErrOnSubscribe(true))
	s, err := blank(o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.write, err = s.connect(url); err != nil {
		return nil, err
	}
	e := &examination{s: s, Checkup: c, shards: map[string]int{}, logs: map[string]store.Position{}}
	for _, check := range []func(context.Context){e.server, e.account, e.durability, e.rights, e.streams, e.lives, e.round, e.clocks} {
		if check(ctx); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return &e.Report, nil
}

// An examination is a checkup with what is known by now.
type examination struct {
	Checkup
	checkup.Report
	s      *Store
	state  *jetstream.StreamInfo // nil where there is none to be had
	leased []leased              // that live
	over   int                   // leases
	shards map[string]int        // by topic
	holds  []holding
	logs   map[string]store.Position // by the tokens of their names, with how far they are known to have come
}

// untold says that a check could not be made, silent that a server's monitoring does not answer.
func (e *examination) untold(check string, err error) {
	e.Add(checkup.Warn, check, fmt.Sprintf("it cannot be told: %v", err), "ask as a user that may, or look yourself")
}

func (e *examination) silent(check string, err error) {
	e.Add(checkup.Warn, check, fmt.Sprintf("it cannot be told: %v", err), "see whether the server runs, and whether --monitor names its monitoring")
}

func (e *examination) server(context.Context) {
	conn := e.s.write
	name, version := conn.ConnectedClusterName(), conn.ConnectedServerVersion()
	found := fmt.Sprintf("nats-server %s, ", version)
	if name == "" {
		found += "in no cluster"
	} else {
		found += "cluster " + name
	}
	switch err := fits(version); {
	case err != nil:
		e.Add(checkup.Fail, "server", found, "upgrade to nats-server 2.15 or later, one server at a time")
	case name == "" && !e.s.o.Single:
		e.Add(checkup.Fail, "server", found, "make a cluster of three servers; for development alone set Single")
	default:
		e.Add(checkup.OK, "server", found, "")
	}
	host, _, _ := net.SplitHostPort(conn.ConnectedAddr())
	if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() {
		state := checkup.OK
		_, err := conn.TLSConnectionState()
		if found = "encrypted"; err != nil {
			state, found = checkup.Warn, "the connection is not encrypted"
		}
		e.Add(state, "transport", found, "use TLS on clients, routes and monitoring: payloads lie in clear")
	}
	most := conn.MaxPayload()
	state := checkup.OK
	if most < payloadWarn {
		state = checkup.Warn
	}
	e.Add(state, "max_payload", fmt.Sprintf("%d KiB", most>>10),
		"set max_payload to 1MB on all servers: an event that is larger with its headers is refused")
}

func (e *examination) account(ctx context.Context) {
	var info jetstream.AccountInfo
	switch err := e.s.api(ctx, "INFO", nil, &info); {
	case errors.Is(err, ErrRights):
		e.untold("account", err)
		return
	case err != nil:
		e.Add(checkup.Fail, "account", err.Error(), "enable JetStream in the servers and for the account; two of three servers have to be there")
		return
	}
	found, state := fmt.Sprintf("%d streams, %d MiB on disk", info.Streams, info.Store>>20), checkup.OK
	if most := info.Limits.MaxStore; most > 0 {
		found += fmt.Sprintf(" of %d MiB", most>>20)
		state = checkup.Worse(int64(info.Store)*100/most, 80, 95)
	}
	if most := info.Limits.MaxStreams; most > 0 {
		found += fmt.Sprintf(", of %d streams", most)
		if info.Streams*10 >= most*9 {
			if state == checkup.OK {
				state = checkup.Warn
			}
		}
	}
	e.Add(state, "account", found, "raise the account's limits, or shorten what event types retain: what does not fit is refused")
}

// durability asks the servers themselves whether they have on disk what they acknowledge: clients are not told (JS-43).
func (e *examination) durability(ctx context.Context) {
	const advice = "set sync_interval: always in the jetstream block of each server and restart them one at a time: a loss of power of several loses what was acknowledged"
	if len(e.s.o.Monitors) == 0 {
		e.Add(checkup.Warn, "durability", "it is not known whether the servers have on disk what they acknowledge", "name the monitoring of all servers with --monitor; "+advice)
		return
	}
	for _, m := range e.s.o.Monitors {
		switch wrong, err := syncs(ctx, m); {
		case err != nil:
			e.silent("durability", err)
		case wrong != "":
			e.Add(checkup.Fail, "durability", wrong, advice)
		default:
			e.Add(checkup.OK, "durability", m+" has sync_interval: always", "")
		}
	}
}

// rights tries what serving needs. What is published is refused for another reason and stands nowhere.
func (e *examination) rights(ctx context.Context) {
	ns, state := e.s.o.Namespace, e.s.state.stream
	var lacking []string
	for _, subject := range []string{ns + ".l.checkup.0.0", ns + ".s.c.b.checkup", ns + ".a.checkup", "$JS.API.INFO", "$JS.API.STREAM.INFO." + state,
		"$JS.API.STREAM.MSG.GET." + state, "$JS.API.STREAM.MSG.DELETE." + state, "$JS.API.DIRECT.GET." + state, "$JS.API.STREAM.PURGE." + state} {
		m := nats.NewMsg(subject)
		if strings.HasPrefix(subject, "$JS.") {
			m.Data = fmt.Appendf(nil, `{"seq":%d}`, beyond) // nothing has this sequence
			if strings.Contains(subject, ".PURGE.") {
				m.Data = []byte(`{"filter":"` + ns + `.s.c.b.checkup"}`) // nothing lies there
			}
		} else {
			m.Header.Set(jetstream.ExpectedStreamHeader, "-")
		}
		began := time.Now()
		_, err := e.s.request(ctx, m)
		_ = e.s.write.FlushWithContext(ctx) // a refusal comes before the answer
		if errors.Is(err, ErrRights) || e.s.lacks(subject, began) {
			lacking = append(lacking, "to publish to "+subject)
		}
	}
	subject := ns + ".t.*.*"
	if sub, err := e.s.write.SubscribeSync(subject); err == nil {
		_ = e.s.write.FlushWithContext(ctx) // a refusal comes before the answer
		if _, err := sub.NextMsg(time.Millisecond); errors.Is(err, nats.ErrPermissionViolation) {
			lacking = append(lacking, "to subscribe to "+subject)
		}
		_ = sub.Unsubscribe()
	}
	if len(lacking) > 0 {
		e.Add(checkup.Fail, "rights", "the user lacks the right "+strings.Join(lacking, "; "), "allow it, see docs/jetstream.md; or ask as the servers' user")
		return
	}
	e.Add(checkup.OK, "rights", "the user has what serving needs", "")
}

// streams holds those of state and of logs to how this package makes them.
func (e *examination) streams(ctx context.Context) {
	s := e.s
	actions, state := s.acting(), s.keeping(s.state, "state")
	good, entries := 0, uint64(0)
	// look returns nil, too, where there is a stream about which nothing can be told.
	look := func(name string, check func(*jetstream.StreamInfo) error) (is *jetstream.StreamInfo, there bool) {
		bound, cancel := context.WithTimeout(ctx, streamTime)
		defer cancel()
		info, err := s.info(bound, name)
		switch {
		case code(err) == codeNoStream:
			return nil, false
		case err == nil:
			err = check(info)
		case errors.Is(err, ErrRights):
			e.untold("stream", err)
			return nil, true
		}
		switch {
		case errors.Is(err, ErrUnreachable):
			e.Add(checkup.Fail, "stream", fmt.Sprintf("%s: %v", name, err), "bring its servers back: it takes no writes until two of three are there")
			return nil, true
		case errors.Is(err, ErrReplicas):
			e.Add(checkup.Fail, "stream", err.Error(), "nats stream edit "+name+" --replicas 3, when all servers are there")
		case errors.Is(err, ErrVersion):
			e.Add(checkup.Fail, "stream", err.Error(), "upgrade mcpe-gen, or take another Namespace")
		case err != nil:
			e.Add(checkup.Fail, "stream", err.Error(), "another program made it or somebody changed it: change it back, or take another Namespace")
		case e.current(info):
			good++
		}
		entries += info.State.Msgs
		return info, true
	}
	var there bool
	e.state, there = look(state.Name, func(i *jetstream.StreamInfo) error { return keeps(&state, &i.Config) })
	if e.state == nil {
		if !there {
			e.Add(checkup.Warn, "streams", "there is no stream "+state.Name, "run mcpe-jetstream prepare, or start a server; or give --namespace")
		}
		return
	}
	if _, there = look(actions.Name, func(i *jetstream.StreamInfo) error { return keeps(&actions, &i.Config) }); !there {
		e.Add(checkup.Fail, "stream", "there is no stream "+actions.Name, "run mcpe-jetstream prepare, or start a server that may make it")
	}
	if err := e.peek(ctx); err != nil {
		e.untold("leases and logs", err)
	}
	for _, short := range slices.Sorted(maps.Keys(e.logs)) {
		name := strings.ToUpper(s.o.Namespace) + "_L_" + short
		info, there := look(name, func(i *jetstream.StreamInfo) error {
			log := i.Config.Metadata[metaLog]
			if err := s.ours(log, short, i); err != nil {
				return err
			}
			if logToken(log) != short {
				return fmt.Errorf("%w: %s has the log %s", ErrForeign, name, log)
			}
			return changed(i)
		})
		switch {
		case !there && e.logs[short] > 0:
			e.Add(checkup.Fail, "stream", fmt.Sprintf("there is no stream %s, which had %d entries", name, e.logs[short]),
				"restore all streams from a backup; or run mcpe-jetstream prepare, and the log begins anew: subscribers get truncated")
		case info == nil:
		case info.Config.Metadata[metaGroup] != "" && info.Config.Metadata[metaGroup] != group(info):
			e.Add(checkup.Fail, "stream", name+" was made again or restored, and its log has begun no other epoch",
				"run mcpe-jetstream prepare: servers that may not change streams refuse its events until then")
		case info.Config.MaxAge <= 0 && info.Config.MaxMsgs <= 0:
			e.Add(checkup.Warn, "retention", fmt.Sprintf("the log of %s has no bound and %d entries", info.Config.Metadata[metaLog], info.State.Msgs),
				"set Retention: each entry costs memory of every server")
		}
	}
	e.Add(checkup.OK, "streams", fmt.Sprintf("%d as they should be, %d messages: about %d MiB of memory on each server", good, entries, entries*perEntry>>20), "")
}

// current says which servers of a stream are behind or away.
func (e *examination) current(info *jetstream.StreamInfo) bool {
	if info.Cluster == nil {
		return true
	}
	good, away := true, 0
	for _, r := range info.Cluster.Replicas {
		if r.Current && !r.Offline && r.Active < staleWarn {
			continue
		}
		good = false
		if what := fmt.Sprintf("%s is %d operations behind", r.Name, r.Lag); r.Offline || r.Active >= staleWarn || r.Active == 0 {
			away++
			what = r.Name + " is away, not heard of since there is this leader"
			if r.Active > 0 {
				what = fmt.Sprintf("%s is away, heard of %v ago", r.Name, r.Active.Round(time.Second))
			}
			e.Add(checkup.Worse(away, 1, 2), "stream", info.Config.Name+": "+what, "bring the server back: with two away nothing is written")
		} else {
			e.Add(checkup.Warn, "stream", info.Config.Name+": "+what, "wait until it has caught up before another server is restarted")
		}
	}
	return good
}

// peek reads who there is, and which logs: those of the servers themselves, of types that somebody serves or has served, and
// those that had entries. It asks whichever server answers: a proof would be a write.
func (e *examination) peek(ctx context.Context) error {
	for _, name := range []string{engine.ControlLog, engine.AuditLog} {
		e.logs[logToken(name)] = 0
	}
	for _, filter := range []string{"c.>", "y.*.0", witnesses + "*"} {
		for next, more := uint64(1), true; more; {
			seen := false
			var err error
			more, err = e.s.pull(ctx, e.s.state.stream, map[string]any{"seq": next, "next_by_subj": e.s.state.prefix + filter, "batch": pageMax, "max_bytes": pageBytes}, func(m *nats.Msg) error {
				r, err := e.s.state.record(m)
				next, seen = max(next, r.sequence+1), true
				if err != nil || !r.there() {
					return err
				}
				return e.peeked(r)
			})
			if err != nil {
				return err
			}
			more = more && seen
		}
	}
	return nil
}

// peeked takes a record of peek's.
func (e *examination) peeked(r record) error {
	switch {
	case strings.HasPrefix(r.subject, leases):
		l, err := leaseOf(r)
		if err != nil {
			return err
		}
		if l.over(e.state.TimeStamp) {
			e.over++
			return nil
		}
		e.leased = append(e.leased, l)
		for name := range l.Types {
			e.known(logToken(name), 0)
		}
	case strings.HasPrefix(r.subject, holds):
		h, err := holdOf(r)
		if err != nil {
			return err
		}
		e.holds = append(e.holds, h)
	case strings.HasPrefix(r.subject, topics):
		var x topic
		if err := json.Unmarshal(r.body, &x); err != nil {
			return fmt.Errorf("%w: topic %s: %w", ErrCorrupt, r.subject, err)
		}
		e.shards[x.Topic] = x.Shards
	case strings.HasPrefix(r.subject, "y."):
		e.known(strings.Split(r.subject, ".")[1], 0)
	case strings.HasPrefix(r.subject, witnesses):
		var w witness
		if _, err := found(r, &w); err != nil {
			return err
		}
		e.known(strings.TrimPrefix(r.subject, witnesses), w.Position)
	}
	return nil
}

// known notes that there is a log, which has come to a position.
func (e *examination) known(short string, to store.Position) {
	e.logs[short] = max(e.logs[short], to)
}

// lives looks at the generation, the leases and the shards.
func (e *examination) lives(ctx context.Context) {
	if e.state == nil {
		return
	}
	r, err := e.s.state.read(ctx, false, lifeSubject)
	if err != nil {
		e.untold("generation", err)
		return
	}
	is := r.of(lifeSubject)
	switch l, err := e.s.lifeOf(&is); {
	case err != nil:
		e.Add(checkup.Fail, "generation", err.Error(), "restore the stream from a backup, then run mcpe-jetstream new-life")
	case l == nil:
		e.Add(checkup.Warn, "generation", "none has begun", "start a server, or run mcpe-jetstream prepare")
	case l.Group != group(e.state):
		e.Add(checkup.Warn, "generation", fmt.Sprintf("%d; stream %s was made again or restored since", l.Generation, e.state.Config.Name),
			"the next server begins a new one: subscribers get truncated. After a restore of all streams run mcpe-jetstream new-life")
	default:
		secrets := "not sealed"
		if l.Sealed != nil {
			secrets = "sealed"
		}
		e.Add(checkup.OK, "generation", fmt.Sprintf("%d; secrets are %s", l.Generation, secrets), "")
		if _, err := e.s.keyFits(l); err != nil && e.s.box.Keyed() {
			e.Add(checkup.Fail, "key", err.Error(), "give the servers the key that the store was made with, or none where it was made without one")
		}
	}
	left, live := e.Lease, map[uint64]bool{}
	for _, l := range e.leased {
		live[l.fence()] = true
		left = min(left, l.record.stamp.Add(l.TTL).Sub(e.state.TimeStamp))
		if l.TTL < shortLease {
			e.Add(checkup.Warn, "lease", fmt.Sprintf("%s has a lease of %v", l.Name, l.TTL), "set Options.Replica.Lease to 30s: the crash of one nats-server could cost every lease")
		}
	}
	found := fmt.Sprintf("%d servers live, %d leases are over", len(e.leased), e.over)
	switch {
	case len(e.leased) == 0:
		e.Add(checkup.Warn, "lease", found, "start a server: until then nothing is delivered to webhooks, and the outbox waits")
	case e.over > 0:
		e.Add(checkup.Warn, "lease", found, "look why those servers died or did not renew: their logs say `the lease is lost`. Others take over within seconds")
	case left < e.Lease/3: // they are renewed when a third is used up
		e.Add(checkup.Warn, "lease", fmt.Sprintf("%s; the first to end has %v of %v left", found, left.Round(100*time.Millisecond), e.Lease),
			"renewals are late: the nats-servers answer slowly, or a server stands still; compare --lease with Options.Replica.Lease")
	default:
		e.Add(checkup.OK, "lease", found, "")
	}
	all, owned := 0, 0
	free := maps.Clone(e.shards)
	for _, n := range e.shards {
		all += n
	}
	for _, h := range e.holds {
		if live[h.Fence] {
			owned++
			free[h.Topic]--
		}
	}
	if owned >= all {
		e.Add(checkup.OK, "shards", fmt.Sprintf("all %d have an owner", all), "")
		return
	}
	maps.DeleteFunc(free, func(_ string, n int) bool { return n <= 0 })
	names := slices.Sorted(maps.Keys(free))
	const shown = 5
	more := ""
	if len(names) > shown {
		names, more = names[:shown], " and others"
	}
	e.Add(checkup.Warn, "shards", fmt.Sprintf("%d of %d have no owner: %s%s", all-owned, all, strings.Join(names, ", "), more),
		"start a server that registers these event types; after a crash wait for the lease and 2 s")
}

// round measures a round of the servers that lead the state: what a write costs, without a write (F5).
func (e *examination) round(ctx context.Context) {
	if e.state == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	var took []time.Duration
	for range trips {
		began := time.Now()
		if err := e.s.barrier(ctx, e.s.state.stream); err != nil {
			e.Add(checkup.Fail, "write", err.Error(), "two of the stream's three servers have to be there")
			return
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	trip, state := took[len(took)/2], checkup.OK
	if trip*leaseTrips > e.Lease {
		state = checkup.Warn
	}
	e.Add(state, "write", fmt.Sprintf("%v from here, a lease of %v has time for %d", trip.Round(10*time.Microsecond), e.Lease, int(e.Lease/max(trip, 1))),
		fmt.Sprintf("make Options.Replica.Lease longer than %d writes, or give the nats-servers faster disks and links", leaseTrips))
}

// clocks compares this machine's with the servers'.
func (e *examination) clocks(ctx context.Context) {
	apart := func(whose string, untold func(string, error), ask func() (time.Time, error)) {
		began := time.Now()
		there, err := ask()
		if err != nil {
			untold("clock", err)
			return
		}
		took := time.Since(began)
		ahead, state := there.Sub(began.Add(took/2)), checkup.OK
		if ahead.Abs() > skewWarn+took/2 {
			state = checkup.Warn
		}
		e.Add(state, "clock", fmt.Sprintf("%s is %v ahead of this machine, ±%v", whose, ahead.Round(time.Millisecond), (took/2).Round(100*time.Microsecond)),
			"set the clocks by NTP: leases are judged by the nats-servers', which have to agree")
	}
	if e.state != nil {
		apart("the leader of "+e.s.state.stream, e.untold, func() (time.Time, error) {
			info, err := e.s.info(ctx, e.s.state.stream)
			if err != nil {
				return time.Time{}, err
			}
			return info.TimeStamp, nil
		})
	}
	for _, m := range e.s.o.Monitors {
		apart(m, e.silent, func() (time.Time, error) {
			var v struct {
				Now time.Time `json:"now"`
			}
			err := monitor.Get(ctx, m+"/varz", &v)
			return v.Now, err
		})
	}
}
