package jetstream

import (
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
	// keepTombstone is how long a deletion is kept, and keepProof how long a proof is kept.
	keepTombstone = time.Hour
	keepProof     = 10 * time.Minute
	// atOnce is the maximum number of batches of this process in flight. A stream takes 50 in all.
	atOnce = 8
	// maxBatch is the maximum number of messages in a batch.
	maxBatch = 1000
)

// A records holds the last messages of a stream's subjects, written by compare-and-swap. A read may be old: a write
// carries the sequence of the record that it replaces and is refused if the record has changed (JS-16).
type records struct {
	s      *Store
	stream string
	prefix string // of the subjects, with a dot at the end; the rest is the subject of a record
	proof  string // the subject of this process's proofs; "" if reads go to the leader, because every message counts
	batch  chan struct{}

	mu      sync.Mutex
	acked   uint64        // the highest sequence of a proof
	lost    bool          // a later proof has a lower sequence than an earlier one
	waiting *proving      // the next proof, which has not begun
	turn    chan struct{} // capacity 1: its holder proves
}

// A proving is a proof in progress, shared by all callers that wait for it.
type proving struct {
	done chan struct{}
	at   uint64
	err  error
}

// records returns the records of a stream. proofs is the prefix of the subjects of proofs; "" for none.
func (s *Store) records(name, proofs string) *records {
	proof := ""
	if proofs != "" {
		proof = proofs + s.me
	}
	return &records{s: s, stream: strings.ToUpper(s.o.Namespace) + "_" + strings.ToUpper(name), prefix: s.o.Namespace + "." + name + ".",
		proof: proof, batch: make(chan struct{}, atOnce), turn: make(chan struct{}, 1)}
}

// nonce returns a unique token.
func nonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// A record is the last message of a subject. Its sequence is 0 if the subject is empty.
type record struct {
	subject  string
	sequence uint64
	stamp    time.Time // the leader's
	call     uint64    // random; identifies the call that wrote it
	rests    uint64    // the sequence that it replaced
	dead     bool      // the record was deleted
	body     []byte
}

// there reports whether the record exists and is not deleted.
func (r *record) there() bool { return r.sequence > 0 && !r.dead }

// pack encodes a record's message: form, whether it is a deletion, the call, the sequence that it replaces, the body,
// and a checksum.
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

// unpack is the inverse of pack. The record keeps a part of b.
func unpack(b []byte) (r record, err error) {
	switch {
	case len(b) < 22 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]):
		return r, errForm
	case b[0] != form:
		return r, errors.New("its format is of a newer release")
	}
	return record{call: binary.BigEndian.Uint64(b[2:10]), rests: binary.BigEndian.Uint64(b[10:18]), dead: b[1] == 1, body: b[18 : len(b)-4]}, nil
}

// record decodes a message of a direct read.
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

// prove writes a marker message. A server that has it has every message that existed when prove was called (JS-17).
// Concurrent calls share a marker.
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

// mark writes a marker message, which shows how far a server has got, and returns its sequence.
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

// goesOn reports whether a request may be retried after the error.
func (c *records) goesOn(ctx context.Context, err error) bool {
	return (errors.Is(err, ErrUnreachable) || errors.Is(err, errUndecided)) && ctx.Err() == nil && !c.s.write.IsClosed()
}

// proofIn returns a subject under a prefix for this process's proofs. A scan of the prefix finds them and leaves them
// out.
func (s *Store) proofIn(prefix string) string { return prefix + "-" + s.me }

func isProof(subject string) bool {
	last := subject[strings.LastIndexByte(subject, '.')+1:]
	return len(last) == 17 && last[0] == '-'
}

// A write is one message of a change.
type write struct {
	subject string
	body    []byte
	dead    bool   // a deletion
	on      uint64 // the sequence of the message that it replaces, 0 for none
	blind   bool   // without an expected sequence; other writes of the change have one
	of      string // the subject that on belongs to, if not subject itself
	ttl     time.Duration
}

// put returns a write that replaces a record.
func put(r record, body []byte) write { return write{subject: r.subject, on: r.sequence, body: body} }

// remove returns a write that deletes a record.
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

// commit publishes all writes or none and returns the sequence of the first; the others follow it. since is when the
// change began its first try.
func (c *records) commit(ctx context.Context, since time.Time, call uint64, writes []write) (first uint64, err error) {
	messages := make([]*nats.Msg, len(writes))
	for i := range writes {
		if limit := c.s.write.MaxPayload() - headers; int64(len(writes[i].body)) > limit {
			return 0, fmt.Errorf("%w: it has %d bytes, the servers' max_payload leaves %d", events.ErrTooLarge, len(writes[i].body), limit)
		}
		messages[i] = c.message(call, &writes[i])
	}
	if len(messages) > maxBatch {
		return 0, fmt.Errorf("jetstream: a change has at most %[2]d messages, but this one has %[1]d", len(messages), maxBatch)
	}
	if len(messages) > 1 {
		select {
		case c.batch <- struct{}{}:
			defer func() { <-c.batch }()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return c.s.batch(ctx, since, messages)
}

// errLook is returned by a step that needs a proven reading.
var errLook = errors.New("jetstream: the state must be read again")

// change reads subjects and commits the writes that step returns. It repeats both if a record has changed meanwhile.
// A final result, which is an error of step or no writes, always rests on a proven reading. change returns the
// sequence of the first write, 0 for none. If the answer to a commit was lost, it reads the records and recognizes
// its messages by their call (JS-6).
func (c *records) change(ctx context.Context, subjects []string, step func(*reading) ([]write, error)) (first uint64, err error) {
	began, call, proven := time.Now(), mathrand.Uint64(), false
	var unsure []write // sent without an answer
	final := false     // the error is certain, and no write of this change is stored
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
		first, err = c.commit(ctx, began, call, writes)
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

// settled reports whether writes whose answer was lost are stored, as far as the reading shows it, and the sequence
// of the first. known is false if they may still arrive.
func settled(r *reading, writes []write, call uint64) (first uint64, is, known bool) {
	for i, w := range writes {
		x := r.of(w.subject)
		switch {
		case x.call == call && x.sequence > 0:
			return x.sequence - uint64(i), true, true
		case w.blind || w.of != "":
		case x.sequence == w.on || x.rests == w.on: // it did not arrive, or will be refused
			known = true
		}
	}
	return 0, false, known
}

var plainToken = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)

// token encodes a text for a subject; detoken is the inverse.
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
