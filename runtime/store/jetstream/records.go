package jetstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	mathrand "math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// keepTombstone is how long a deletion is kept, and keepProof a message that only proves how far a server is.
	keepTombstone = time.Hour
	keepProof     = 10 * time.Minute
	// atOnce is how many batches of this process are in flight: a stream takes 50, of all processes.
	atOnce = 8
	// maxBatch is how many messages a batch has at most.
	maxBatch = 1000
)

// Records are the last messages of the subjects of a stream, written by compare-and-swap. What is read may be old: a
// write carries the sequence of what it rests on and is refused where that has moved (JS-16).
type records struct {
	s      *Store
	stream string
	prefix string // of the subjects, with a dot at the end; a record's subject is what follows
	proof  string // the subject of this process's proofs; "" where every message counts: who leads the stream is asked
	batch  chan struct{}

	mu      sync.Mutex
	acked   uint64        // the highest sequence of a proof
	lost    bool          // a proof came to stand below one that was known before
	waiting *proving      // the proof that has not begun
	turn    chan struct{} // capacity 1: who has it proves
}

// A proving is a proof under way, for all who wait for it.
type proving struct {
	done chan struct{}
	at   uint64
	err  error
}

// records are those of a stream. Proofs begin a subject; "" for none.
func (s *Store) records(name, proofs string) *records {
	proof := ""
	if proofs != "" {
		proof = proofs + s.me
	}
	return &records{s: s, stream: strings.ToUpper(s.o.Namespace) + "_" + strings.ToUpper(name), prefix: s.o.Namespace + "." + name + ".",
		proof: proof, batch: make(chan struct{}, atOnce), turn: make(chan struct{}, 1)}
}

// nonce is a token that no other has.
func nonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// A record is what lies under a subject; its sequence is 0 where nothing does.
type record struct {
	subject  string
	sequence uint64
	stamp    time.Time // the leader's
	call     uint64    // random, of the call that wrote it
	rests    uint64    // the sequence that it replaced
	dead     bool      // it was deleted
	body     []byte
}

// there tells that there is something.
func (r *record) there() bool { return r.sequence > 0 && !r.dead }

// pack makes a record's message: its form, whether it is a deletion, the call, what it rests on, the body, and a checksum.
func pack(call uint64, w *write) []byte {
	b := make([]byte, 0, 22+len(w.body))
	b = append(b, form, 0)
	if w.dead {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, call)
	b = binary.BigEndian.AppendUint64(b, w.on)
	b = append(b, w.body...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// unpack is the reverse of pack. It keeps a part of b.
func unpack(b []byte) (r record, err error) {
	switch {
	case len(b) < 22 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]):
		return r, errForm
	case b[0] != form:
		return r, errors.New("its form is of a newer release")
	}
	return record{call: binary.BigEndian.Uint64(b[2:10]), rests: binary.BigEndian.Uint64(b[10:18]), dead: b[1] == 1, body: b[18 : len(b)-4]}, nil
}

// record reads a message that any server has sent.
func (c *records) record(m *nats.Msg) (r record, err error) {
	sequence, at, err := place(c.stream, m)
	if err != nil {
		return r, err
	}
	subject, ok := strings.CutPrefix(m.Header.Get(jetstream.SubjectHeader), c.prefix)
	if !ok {
		return r, fmt.Errorf("%w: %s holds message %d of %s", ErrForeign, c.stream, sequence, m.Header.Get(jetstream.SubjectHeader))
	}
	if r, err = unpack(m.Data); err != nil {
		return r, fmt.Errorf("%w: message %d of %s: %w", ErrCorrupt, sequence, c.stream, err)
	}
	r.subject, r.sequence, r.stamp = subject, sequence, c.s.clock.stamped(at)
	return r, nil
}

// prove writes a message that nobody needs: a server that has it has all that stood when prove was called (JS-17). Calls
// that wait for one another share one.
func (c *records) prove(ctx context.Context) (at uint64, err error) {
	c.mu.Lock()
	p := c.waiting
	if p == nil {
		p = &proving{done: make(chan struct{})}
		c.waiting = p
		if !c.s.goes(func() { c.proves(p) }) {
			c.waiting = nil
			c.mu.Unlock()
			return 0, store.ErrClosed
		}
	}
	c.mu.Unlock()
	select {
	case <-p.done:
		return p.at, p.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (c *records) proves(p *proving) {
	defer close(p.done)
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-c.s.life.Done():
		p.err = store.ErrClosed
		return
	}
	c.mu.Lock()
	c.waiting = nil
	c.mu.Unlock()
	p.at, p.err = c.mark(c.s.life, c.proof)
}

// mark writes a message that proves how far a server is, and returns where it stands.
func (c *records) mark(ctx context.Context, subject string) (at uint64, err error) {
	m := c.message(mathrand.Uint64(), &write{subject: subject, blind: true, ttl: keepProof})
	c.mu.Lock()
	known := c.acked
	c.mu.Unlock()
	err = asLong(ctx, func() (bool, error) {
		at, err = c.s.acknowledged(ctx, m)
		return c.goesOn(ctx, err), err
	})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lost = c.lost || at <= known
		c.acked = max(c.acked, at)
	}
	return at, err
}

// goesOn tells that a request may be made again after the error.
func (c *records) goesOn(ctx context.Context, err error) bool {
	return (errors.Is(err, ErrUnreachable) || errors.Is(err, errUndecided)) && ctx.Err() == nil && !c.s.write.IsClosed()
}

// A reading is what was read of subjects.
type reading struct {
	proven bool // it is no older than the call
	all    map[string]record
}

// of is the record of a subject.
func (r *reading) of(subject string) record {
	if x, ok := r.all[subject]; ok {
		return x
	}
	return record{subject: subject}
}

// under are the records whose subjects match a pattern with wildcards of one token, and that are there.
func (r *reading) under(pattern string) (found []record) {
	want := strings.Split(pattern, ".")
	for subject, x := range r.all {
		if x.there() && matches(want, strings.Split(subject, ".")) {
			found = append(found, x)
		}
	}
	return found
}

func matches(want, have []string) bool {
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && want[i] != "*" || want[i] == "*" && strings.HasPrefix(have[i], "-") {
			return false
		}
	}
	return true
}

// readMost bounds how many subjects one request names: a server refuses what matches more than 1,024.
const readMost = 400

// read reads the last message of subjects, which may have wildcards and match 1,000 at most.
func (c *records) read(ctx context.Context, proven bool, subjects ...string) (*reading, error) {
	r := &reading{proven: proven, all: map[string]record{}}
	if c.proof == "" {
		return r, c.readLeader(ctx, r, subjects)
	}
	at := uint64(0)
	if proven {
		var err error
		if at, err = c.prove(ctx); err != nil {
			return nil, err
		}
	}
	for len(subjects) > 0 {
		n := min(len(subjects), readMost)
		list := make([]string, 0, n+1)
		for _, subject := range subjects[:n] {
			list = append(list, c.prefix+subject)
		}
		subjects = subjects[n:]
		if proven {
			list = append(list, c.prefix+c.proof)
		}
		err := asLong(ctx, func() (bool, error) {
			found := map[string]record{}
			_, err := c.s.pull(ctx, c.stream, map[string]any{"multi_last": list}, func(m *nats.Msg) error {
				x, err := c.record(m)
				found[x.subject] = x
				return err
			})
			if err != nil {
				return c.goesOn(ctx, err), err
			}
			if x := found[c.proof]; proven && x.sequence < at {
				return true, fmt.Errorf("%w: a server of %s is behind", ErrUnreachable, c.stream)
			} else if proven {
				c.s.clock.hear(x.stamp)
			}
			for subject, x := range found {
				r.all[subject] = x
			}
			return false, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readLeader reads subjects without wildcards from who leads the stream. For a moment, one that leads no more and does not know
// it may answer in that one's place, and nothing in the answer tells: a write that rests on it is refused (JS-16), what is final,
// such as that an action was done, may be as old as that.
func (c *records) readLeader(ctx context.Context, r *reading, subjects []string) error {
	if r.proven {
		if err := c.s.barrier(ctx, c.stream); err != nil {
			return err
		}
	}
	for _, subject := range subjects {
		m, found, err := c.s.fetched(ctx, c.stream, map[string]any{"last_by_subj": c.prefix + subject})
		if err != nil || !found {
			if err != nil {
				return err
			}
			continue
		}
		x, err := unpack(m.Data)
		if err != nil {
			return fmt.Errorf("%w: message %d of %s: %w", ErrCorrupt, m.Sequence, c.stream, err)
		}
		x.subject, x.sequence, x.stamp = subject, m.Sequence, c.s.clock.stamped(m.Time)
		r.all[subject] = x
	}
	return nil
}

// scan reads all records that match a filter, from a sequence on, in order; deleted ones too. mark is a subject that the
// filter matches, for its proof. A scan of one page is of one moment; what was written while several were read is read
// in another round, until a round has one page. upTo is the last sequence that was read; below from where the stream ends
// before it. A scan that is to find no more than most, 0 for all, ends where it has.
func (c *records) scan(ctx context.Context, filter, mark string, from uint64, most int) (found []record, upTo uint64, err error) {
	return c.scanBy(ctx, c.mark, filter, mark, from, most)
}

// scanBy is scan with proofs that prove writes.
func (c *records) scanBy(ctx context.Context, prove func(ctx context.Context, mark string) (at uint64, err error), filter, mark string, from uint64, most int) (found []record, upTo uint64, err error) {
	for {
		at, err := prove(ctx, mark)
		if err != nil {
			return nil, 0, err
		}
		if at < from { // nothing lies above, or the stream was made again
			return found, at, nil
		}
		page := pageMax
		if most > 0 {
			page = min(page, most)
		}
		pages, next := 0, from
		for seen := false; ; {
			var some []record
			var more bool
			err := asLong(ctx, func() (bool, error) {
				some = nil
				more, err = c.s.pull(ctx, c.stream, map[string]any{"seq": next, "next_by_subj": c.prefix + filter, "batch": page, "max_bytes": pageBytes},
					func(m *nats.Msg) error {
						x, err := c.record(m)
						some = append(some, x)
						return err
					})
				if err != nil {
					return c.goesOn(ctx, err), err
				}
				for i := range some {
					seen = seen || some[i].subject == mark && some[i].sequence >= at
				}
				if len(some) == 0 && !seen {
					return true, fmt.Errorf("%w: a server of %s is behind", ErrUnreachable, c.stream)
				}
				return false, nil
			})
			if err != nil {
				return nil, 0, err
			}
			pages++
			if len(some) > 0 {
				next = some[len(some)-1].sequence + 1
			}
			found = append(found, slices.DeleteFunc(some, func(r record) bool { return isProof(r.subject) })...)
			if most > 0 && len(found) >= most {
				return found, next - 1, nil
			}
			if seen && !more {
				break
			}
		}
		if pages == 1 {
			slices.SortStableFunc(found, func(a, b record) int { return cmp.Compare(a.sequence, b.sequence) })
			return slices.CompactFunc(found, func(a, b record) bool { return a.sequence == b.sequence }), next - 1, nil
		}
		from = at + 1
	}
}

// proofIn is a subject below a prefix for this process's proofs that a scan of it finds, and leaves out.
func (s *Store) proofIn(prefix string) string { return prefix + "-" + s.me }

func isProof(subject string) bool {
	last := subject[strings.LastIndexByte(subject, '.')+1:]
	return len(last) == 17 && last[0] == '-'
}

// A write is one message of a change.
type write struct {
	subject string
	body    []byte
	dead    bool   // it deletes
	on      uint64 // the sequence that it rests on, 0 for nothing
	blind   bool   // it rests on nothing of its own: others of its change do
	of      string // the subject that on is of, where it is not its own
	ttl     time.Duration
}

// put is a write in the place of a record.
func put(r record, body []byte) write { return write{subject: r.subject, on: r.sequence, body: body} }

// remove deletes a record.
func remove(r record) write {
	return write{subject: r.subject, on: r.sequence, dead: true, ttl: keepTombstone}
}

func (c *records) message(call uint64, w *write) *nats.Msg {
	m := &nats.Msg{Subject: c.prefix + w.subject, Data: pack(call, w), Header: nats.Header{}}
	if !w.blind {
		m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(w.on, 10))
	}
	if w.of != "" {
		m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, c.prefix+w.of)
	}
	if w.ttl > 0 {
		m.Header.Set(jetstream.MsgTTLHeader, w.ttl.String())
	}
	return m
}

// commit writes all or nothing and returns where the first stands: the others follow it.
func (c *records) commit(ctx context.Context, call uint64, writes []write) (first uint64, err error) {
	for i := range writes {
		if limit := c.s.write.MaxPayload() - headers; int64(len(writes[i].body)) > limit {
			return 0, fmt.Errorf("%w: it has %d bytes, the servers' max_payload leaves %d", events.ErrTooLarge, len(writes[i].body), limit)
		}
	}
	if len(writes) == 1 {
		return c.s.acknowledged(ctx, c.message(call, &writes[0]))
	}
	if len(writes) > maxBatch {
		return 0, fmt.Errorf("jetstream: a change of %d messages; it has at most %d", len(writes), maxBatch)
	}
	select {
	case c.batch <- struct{}{}:
		defer func() { <-c.batch }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	began := time.Now()
	defer func() {
		for i := range writes {
			if err != nil && c.s.lacks(c.prefix+writes[i].subject, began) {
				first, err = 0, fmt.Errorf("%w: to publish to %s", ErrRights, c.prefix+writes[i].subject)
			}
		}
	}()
	id := nonce()
	for i := range writes {
		m := c.message(call, &writes[i])
		m.Header.Set("Nats-Batch-Id", id)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if i == len(writes)-1 {
			m.Header.Set("Nats-Batch-Commit", "1")
			last, err := c.s.acknowledged(ctx, m)
			return last - uint64(i), err
		}
		if err := c.s.write.PublishMsg(m); err != nil { // what came of it is given up by the server
			return 0, fmt.Errorf("%w: %s: %w", ErrUnreachable, m.Subject, err)
		}
	}
	return 0, errors.New("jetstream: a change of nothing")
}

// errLook is returned by a step that needs what is proven.
var errLook = errors.New("jetstream: it has to be looked at again")

// change reads subjects and writes what step returns, in one step, as often as what was read has moved meanwhile. What is
// final, an error of step or nothing to write, rests on what is proven. It returns where the first write stands, 0 for
// none. A change whose answer was lost is settled by reading, by the call that its messages name (JS-6).
func (c *records) change(ctx context.Context, subjects []string, step func(*reading) ([]write, error)) (first uint64, err error) {
	call, proven := mathrand.Uint64(), false
	var unsure []write // was sent, and no answer came
	final := false     // the error says what is so, and nothing of this change stands
	err = asLong(ctx, func() (again bool, err error) {
		look := subjects
		for _, w := range unsure {
			look = append(slices.Clip(look), w.subject)
		}
		r, err := c.read(ctx, proven, look...)
		if err != nil {
			return c.goesOn(ctx, err), err
		}
		known := true
		if len(unsure) > 0 {
			var is bool
			if first, is, known = settled(r, unsure, call); is {
				return false, nil
			}
		}
		writes, err := step(r)
		if err != nil || len(writes) == 0 {
			if !proven {
				proven = true
				return true, errLook
			}
			final = known
			return false, err
		}
		if c.s.slow != nil {
			c.s.slow()
		}
		first, err = c.commit(ctx, call, writes)
		var moved *wrongSequence
		proven = true
		switch {
		case errors.As(err, &moved):
			return true, err
		case errors.Is(err, errUnanswered):
			unsure = writes
		}
		return err != nil && c.goesOn(ctx, err), err
	})
	if err != nil && len(unsure) > 0 && !final {
		return 0, fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	return first, err
}

// settled tells of writes whose answer was lost whether they stand, and where the first does, as far as what was read
// since shows it.
func settled(r *reading, writes []write, call uint64) (first uint64, is, known bool) {
	for i, w := range writes {
		x := r.of(w.subject)
		switch {
		case x.call == call && x.sequence > 0:
			return x.sequence - uint64(i), true, true
		case w.blind || w.of != "":
		case x.sequence == w.on || x.rests == w.on: // it has not come, or is refused when it comes
			known = true
		}
	}
	return 0, false, known
}

var plainToken = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// token stands for a text in subjects; detoken is the reverse.
func token(text string) string {
	if plainToken.MatchString(text) {
		return text
	}
	return "=" + base64.RawURLEncoding.EncodeToString([]byte(text))
}

func detoken(t string) string {
	if rest, ok := strings.CutPrefix(t, "="); ok {
		b, _ := base64.RawURLEncoding.DecodeString(rest)
		return string(b)
	}
	return t
}
