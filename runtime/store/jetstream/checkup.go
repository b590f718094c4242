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
)

// Thresholds for checkup warnings.
const (
	payloadWarn = 512 << 10        // of max_payload: a webhook payload has up to 252 KiB, plus meta and targets (JS-15)
	skewWarn    = time.Second      // between clocks
	staleWarn   = 30 * time.Second // since a server of a stream was last heard from
	leaseTrips  = 20               // writes for which a lease should have time
	trips       = 5                // writes that checkLatency measures
	perEntry    = 180              // bytes of a server's heap per entry (F11)
	streamTime  = 5 * time.Second  // for which a stream may lack a leader
)

// A Checkup contains parameters for [Examine] in addition to the options of the store.
type Checkup struct {
	// Lease is the value of replicas.Options.Lease that the servers use.
	Lease time.Duration
}

// Examine checks a store's nats-servers and streams and reports faults. It uses only the rights of the connecting user,
// writes nothing, and does not read payloads, arguments or secrets. If no server accepts a connection, it returns an
// error instead of a report.
func Examine(ctx context.Context, url string, o Options, c Checkup) (*checkup.Report, error) {
	// Report a denied subscription as an error on that subscription.
	o.Connect = append(slices.Clone(o.Connect), nats.PermissionErrOnSubscribe(true))
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.write, err = s.connect(url); err != nil {
		return nil, err
	}
	e := &examination{s: s, Checkup: c, shards: map[string]int{}, logs: map[string]store.Position{}}
	for _, check := range []func(context.Context){e.checkServer, e.checkAccount, e.checkDurability, e.checkRights, e.checkStreams, e.checkCluster, e.checkLatency, e.checkClocks} {
		if check(ctx); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return &e.Report, nil
}

// An examination is a checkup in progress.
type examination struct {
	Checkup
	checkup.Report
	s      *Store
	state  *jetstream.StreamInfo // nil if unavailable
	leased []storedLease         // leases that have not expired
	over   int                   // number of expired leases
	shards map[string]int        // by topic
	holds  []storedHold
	logs   map[string]store.Position // positions that logs are known to have reached, by the token of their names
}

// addDenied adds a warning for a check that the user lacks the rights for.
func (e *examination) addDenied(check string, err error) {
	e.Add(checkup.Warn, check, fmt.Sprintf("unknown: %v", err), "run doctor as a user with this right, or check by other means")
}

// addNoResponse adds a warning for a server whose monitoring does not respond.
func (e *examination) addNoResponse(check string, err error) {
	e.Add(checkup.Warn, check, fmt.Sprintf("unknown: %v", err), "check that the server runs and that -monitor has the URL of its monitoring")
}

func (e *examination) checkServer(context.Context) {
	conn := e.s.write
	name, version := conn.ConnectedClusterName(), conn.ConnectedServerVersion()
	found := fmt.Sprintf("nats-server %s, ", version)
	if name == "" {
		found += "not in a cluster"
	} else {
		found += "cluster " + name
	}
	switch err := checkServerVersion(version); {
	case err != nil:
		e.Add(checkup.Fail, "server", found, "upgrade to nats-server 2.15 or later, one server at a time")
	case name == "" && !e.s.o.Single:
		e.Add(checkup.Fail, "server", found, "set up a cluster of three servers; for development only, set Single")
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
		e.Add(state, "transport", found, "use TLS for clients, routes and monitoring: payloads are sent in plain text")
	}
	most := conn.MaxPayload()
	state := checkup.OK
	if most < payloadWarn {
		state = checkup.Warn
	}
	e.Add(state, "max_payload", fmt.Sprintf("%d KiB", most>>10),
		"set max_payload to 1MB on all servers: larger events, including headers, are refused")
}

func (e *examination) checkAccount(ctx context.Context) {
	var info jetstream.AccountInfo
	switch err := e.s.callAPI(ctx, "INFO", nil, &info); {
	case errors.Is(err, ErrRights):
		e.addDenied("account", err)
		return
	case err != nil:
		e.Add(checkup.Fail, "account", err.Error(), "enable JetStream in the servers and for the account; two of three servers must be running")
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
	e.Add(state, "account", found, "raise the account's limits, or reduce the retention of event types: events beyond the limits are refused")
}

// checkDurability checks whether the servers sync messages to disk before they acknowledge them (JS-43). It queries
// their monitoring endpoints, because clients cannot read that setting.
func (e *examination) checkDurability(ctx context.Context) {
	const advice = "set sync_interval: always in the jetstream block of each server and restart them one at a time: a power failure of several servers loses acknowledged events"
	if len(e.s.o.Monitors) == 0 {
		e.Add(checkup.Warn, "durability", "unknown: no server's monitoring was named", "pass the monitoring URL of each server with -monitor; "+advice)
		return
	}
	for _, m := range e.s.o.Monitors {
		switch wrong, err := syncFault(ctx, m); {
		case err != nil:
			e.addNoResponse("durability", err)
		case wrong != "":
			e.Add(checkup.Fail, "durability", wrong, advice)
		default:
			e.Add(checkup.OK, "durability", m+" has sync_interval: always", "")
		}
	}
}

// checkRights attempts every kind of request that a server makes. Each publish has a condition that makes the stream
// reject it, so nothing is stored.
func (e *examination) checkRights(ctx context.Context) {
	ns, state := e.s.o.Namespace, e.s.state.stream
	var lacking []string
	for _, subject := range []string{ns + ".l.checkup.0.0", ns + ".s.c.b.checkup", "$JS.API.INFO", "$JS.API.STREAM.INFO." + state,
		"$JS.API.STREAM.MSG.GET." + state, "$JS.API.STREAM.MSG.DELETE." + state, "$JS.API.DIRECT.GET." + state, "$JS.API.STREAM.PURGE." + state} {
		m := nats.NewMsg(subject)
		if strings.HasPrefix(subject, "$JS.") {
			m.Data = fmt.Appendf(nil, `{"seq":%d}`, beyond) // no message has this sequence
			if strings.Contains(subject, ".PURGE.") {
				m.Data = []byte(`{"filter":"` + ns + `.s.c.b.checkup"}`) // the subject has no messages
			}
		} else {
			m.Header.Set(jetstream.ExpectedStreamHeader, "-")
		}
		if _, err := e.s.request(ctx, m); errors.Is(err, ErrRights) {
			lacking = append(lacking, "to publish to "+subject)
		}
	}
	subject := ns + ".t.*.*"
	if sub, err := e.s.write.SubscribeSync(subject); err == nil {
		flushing, cancel := context.WithTimeout(ctx, requestTimeout) // a flush needs a deadline
		_ = e.s.write.FlushWithContext(flushing)                     // a denial comes before the answer
		cancel()
		if _, err := sub.NextMsg(time.Millisecond); errors.Is(err, nats.ErrPermissionViolation) {
			lacking = append(lacking, "to subscribe to "+subject)
		}
		_ = sub.Unsubscribe()
	}
	if len(lacking) > 0 {
		e.Add(checkup.Fail, "rights", "the user lacks the right "+strings.Join(lacking, "; "), "allow it (see docs/jetstream.md), or run doctor as the servers' user")
		return
	}
	e.Add(checkup.OK, "rights", "servers need no further rights", "")
}

// checkStreams compares the configuration of the state and log streams with that of newly created streams.
func (e *examination) checkStreams(ctx context.Context) {
	s := e.s
	state := s.recordStreamConfig(s.state, "state")
	good, entries := 0, uint64(0)
	// look examines a stream. It returns nil and true if the stream exists but cannot be examined.
	look := func(name string, check func(*jetstream.StreamInfo) error) (is *jetstream.StreamInfo, there bool) {
		bound, cancel := context.WithTimeout(ctx, streamTime)
		defer cancel()
		info, err := s.leaderInfo(bound, name)
		switch {
		case apiErrorCode(err) == codeNoStream:
			return nil, false
		case err == nil:
			err = check(info)
		case errors.Is(err, ErrRights):
			e.addDenied("stream", err)
			return nil, true
		}
		switch {
		case errors.Is(err, ErrUnreachable):
			e.Add(checkup.Fail, "stream", fmt.Sprintf("%s: %v", name, err), "restart its servers: the stream takes no writes until two of three are running")
			return nil, true
		case errors.Is(err, ErrReplicas):
			e.Add(checkup.Fail, "stream", err.Error(), "nats stream edit "+name+" --replicas 3, when all servers are running")
		case errors.Is(err, ErrVersion):
			e.Add(checkup.Fail, "stream", err.Error(), "upgrade mcpe-gen, or use another Namespace")
		case err != nil:
			e.Add(checkup.Fail, "stream", err.Error(), "another program created it or somebody changed it: change it back, or use another Namespace")
		case e.isCurrent(info):
			good++
		}
		entries += info.State.Msgs
		return info, true
	}
	var there bool
	e.state, there = look(state.Name, func(i *jetstream.StreamInfo) error { return s.checkRecordStream(&state, &i.Config) })
	if e.state == nil {
		if !there {
			e.Add(checkup.Warn, "streams", "stream "+state.Name+" does not exist", "run mcpe-jetstream prepare or start a server; or set -namespace")
		}
		return
	}
	if err := e.readState(ctx); err != nil {
		e.addDenied("leases and logs", err)
	}
	for _, short := range slices.Sorted(maps.Keys(e.logs)) {
		name := strings.ToUpper(s.o.Namespace) + "_L_" + short
		info, there := look(name, func(i *jetstream.StreamInfo) error {
			log := i.Config.Metadata[metaLog]
			if err := s.checkLogStream(log, short, i); err != nil {
				return err
			}
			if logToken(log) != short {
				return fmt.Errorf("%w: %s has the log %s", ErrForeign, name, log)
			}
			return checkLimits(i)
		})
		switch {
		case !there && e.logs[short] > 0:
			e.Add(checkup.Fail, "stream", fmt.Sprintf("stream %s, which had %d entries, does not exist", name, e.logs[short]),
				"restore all streams from a backup; or run mcpe-jetstream prepare: the log restarts empty, and subscribers get truncated")
		case info == nil:
		case info.Config.Metadata[metaGroup] != "" && info.Config.Metadata[metaGroup] != raftGroup(info):
			e.Add(checkup.Fail, "stream", name+" was recreated or restored, and its log has not begun a new epoch",
				"run mcpe-jetstream prepare: until then, servers that may not change streams refuse its events")
		case info.Config.MaxAge <= 0 && info.Config.MaxMsgs <= 0:
			e.Add(checkup.Warn, "retention", fmt.Sprintf("the log of %s has no limit and %d entries", info.Config.Metadata[metaLog], info.State.Msgs),
				"set Retention: each entry takes memory on every server")
		}
	}
	e.Add(checkup.OK, "streams", fmt.Sprintf("%d healthy, %d messages: about %d MiB of memory on each server", good, entries, entries*perEntry>>20), "")
}

// isCurrent reports whether all servers of a stream are up to date. It adds a line to the report for each server that
// lags or is offline.
func (e *examination) isCurrent(info *jetstream.StreamInfo) bool {
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
			what = r.Name + " is offline, not heard from since this leader was elected"
			if r.Active > 0 {
				what = fmt.Sprintf("%s is offline, last heard from %v ago", r.Name, r.Active.Round(time.Second))
			}
			e.Add(checkup.Worse(away, 1, 2), "stream", info.Config.Name+": "+what, "restart the server: with two offline, nothing can be written")
		} else {
			e.Add(checkup.Warn, "stream", info.Config.Name+": "+what, "wait until it has caught up before you restart another server")
		}
	}
	return good
}

// readState reads the leases, topics and shard holds, and collects the known logs. These are the runtime's logs, the
// logs of event types that a server serves or has served, and the logs with witnesses. It reads from any server,
// because a proof would require a write.
func (e *examination) readState(ctx context.Context) error {
	for _, name := range []string{engine.ControlLog, engine.AuditLog} {
		e.logs[logToken(name)] = 0
	}
	for _, filter := range []string{"c.>", "y.*.0", witnessPrefix + "*"} {
		for next, more := uint64(1), true; more; {
			seen := false
			var err error
			more, err = e.s.pull(ctx, e.s.state.stream, map[string]any{"seq": next, "next_by_subj": e.s.state.prefix + filter, "batch": pageMax, "max_bytes": pageBytes}, func(m *nats.Msg) error {
				r, err := e.s.state.decodeRecord(m)
				next, seen = max(next, r.sequence+1), true
				if err != nil || !r.exists() {
					return err
				}
				return e.addRecord(r)
			})
			if err != nil {
				return err
			}
			more = more && seen
		}
	}
	return nil
}

// addRecord adds a state record to the examination.
func (e *examination) addRecord(r record) error {
	switch {
	case strings.HasPrefix(r.subject, leases):
		l, err := leaseOf(r)
		if err != nil {
			return err
		}
		if l.isExpired(e.state.TimeStamp) {
			e.over++
			return nil
		}
		e.leased = append(e.leased, l)
		for name := range l.Types {
			e.addLog(logToken(name), 0)
		}
	case strings.HasPrefix(r.subject, holds):
		h, err := holdOf(r)
		if err != nil {
			return err
		}
		e.holds = append(e.holds, h)
	case strings.HasPrefix(r.subject, topics):
		var x storedTopic
		if err := json.Unmarshal(r.body, &x); err != nil {
			return fmt.Errorf("%w: topic %s: %w", ErrCorrupt, r.subject, err)
		}
		e.shards[x.Topic] = x.Shards
	case strings.HasPrefix(r.subject, "y."):
		e.addLog(strings.Split(r.subject, ".")[1], 0)
	case strings.HasPrefix(r.subject, witnessPrefix):
		var w witness
		if _, err := decodeRecord(r, &w); err != nil {
			return err
		}
		e.addLog(strings.TrimPrefix(r.subject, witnessPrefix), w.Position)
	}
	return nil
}

// addLog records that a log exists and has reached a position.
func (e *examination) addLog(short string, to store.Position) {
	e.logs[short] = max(e.logs[short], to)
}
