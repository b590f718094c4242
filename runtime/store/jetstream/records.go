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
	// tombstoneTTL is how long deletions are stored, and proofTTL is how long proofs are stored.
	tombstoneTTL = time.Hour
	proofTTL     = 10 * time.Minute
	// maxBatches is the maximum number of batches that this process has in flight. A stream accepts 50 from all
	// processes.
	maxBatches = 8
	// maxBatch is the maximum number of messages in a batch.
	maxBatch = 1000
)

// A recordStream is a stream that stores the last message of each subject as a record. Reads can be stale. A write
// therefore includes the sequence of the record that it replaces, and is rejected if the record has changed (JS-16).
type recordStream struct {
	s      *Store
	stream string
	prefix string // of the subjects, with a dot at the end; the rest is the subject of a record
	proof  string // the subject of this process's proofs; "" if reads go to the leader, because every message counts
	batch  chan struct{}

	mu      sync.Mutex
	acked   uint64        // the highest sequence of a proof
	lost    bool          // a later proof has a lower sequence than an earlier one
	waiting *pendingProof // the next proof, which has not begun
	turn    chan struct{} // capacity 1: its holder proves
}

// A pendingProof is a proof in progress, shared by all waiting callers.
type pendingProof struct {
	done chan struct{}
	at   uint64
	err  error
}

// newRecordStream returns the record stream with the given name. The argument proofs is the subject prefix of its
// proofs, or "" if it has no proofs.
func (s *Store) newRecordStream(name, proofs string) *recordStream {
	proof := ""
	if proofs != "" {
		proof = proofs + s.me
	}
	return &recordStream{s: s, stream: strings.ToUpper(s.o.Namespace) + "_" + strings.ToUpper(name), prefix: s.o.Namespace + "." + name + ".",
		proof: proof, batch: make(chan struct{}, maxBatches), turn: make(chan struct{}, 1)}
}

// nonce returns a random token.
func nonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// A record is the last message of a subject. Its sequence is 0 if the subject has no messages.
type record struct {
	subject  string
	sequence uint64
	stamp    time.Time // the leader's
	call     uint64    // random; identifies the call that wrote it
	rests    uint64    // the sequence that it replaced
	dead     bool      // the record was deleted
	body     []byte
}

// exists reports whether the record exists and is not deleted.
func (r *record) exists() bool { return r.sequence > 0 && !r.dead }

// pack encodes a record's message: the format version, a deletion flag, the call, the replaced sequence, the body, and
// a checksum.
func pack(call uint64, w *write) []byte {
	b := make([]byte, 0, 22+len(w.body))
	b = append(b, formatVersion, 0)
	if w.dead {
		b[1] = 1
	}
	b = binary.BigEndian.AppendUint64(b, call)
	b = binary.BigEndian.AppendUint64(b, w.on)
	b = append(b, w.body...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// unpack is the inverse of pack. The record's body shares memory with b.
func unpack(b []byte) (r record, err error) {
	switch {
	case len(b) < 22 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]):
		return r, errForm
	case b[0] != formatVersion:
		return r, errors.New("its format is of a newer release")
	}
	return record{call: binary.BigEndian.Uint64(b[2:10]), rests: binary.BigEndian.Uint64(b[10:18]), dead: b[1] == 1, body: b[18 : len(b)-4]}, nil
}

// decodeRecord decodes a message returned by a direct read.
func (c *recordStream) decodeRecord(m *nats.Msg) (r record, err error) {
	sequence, at, err := messagePosition(c.stream, m)
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
	r.subject, r.sequence, r.stamp = subject, sequence, c.s.clock.appendTime(at)
	return r, nil
}

// prove writes a marker message. A server that has received the marker has every message that existed when prove was
// called (JS-17). Concurrent calls share a marker.
func (c *recordStream) prove(ctx context.Context) (at uint64, err error) {
	c.mu.Lock()
	p := c.waiting
	if p == nil {
		p = &pendingProof{done: make(chan struct{})}
		c.waiting = p
		if !c.s.startTask(func() { c.runProof(p) }) {
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

func (c *recordStream) runProof(p *pendingProof) {
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
	p.at, p.err = c.writeMarker(c.s.life, c.proof)
}

// writeMarker writes a marker message and returns its sequence.
func (c *recordStream) writeMarker(ctx context.Context, subject string) (at uint64, err error) {
	m := c.message(mathrand.Uint64(), &write{subject: subject, blind: true, ttl: proofTTL})
	c.mu.Lock()
	known := c.acked
	c.mu.Unlock()
	err = retry(ctx, func() (bool, error) {
		at, err = c.s.publishAcknowledged(ctx, m)
		return c.canRetry(ctx, err), err
	})
	if err == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lost = c.lost || at <= known
		c.acked = max(c.acked, at)
	}
	return at, err
}

// canRetry reports whether a request can be retried after the error.
func (c *recordStream) canRetry(ctx context.Context, err error) bool {
	return (errors.Is(err, ErrUnreachable) || errors.Is(err, errUndecided)) && ctx.Err() == nil && !c.s.write.IsClosed()
}

// proofSubject returns a subject for this process's proofs that begins with the given prefix. A scan of the prefix
// reads the proofs but does not return them.
func (s *Store) proofSubject(prefix string) string { return prefix + "-" + s.me }

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

// put returns a write that creates or replaces a record.
func put(r record, body []byte) write { return write{subject: r.subject, on: r.sequence, body: body} }

// remove returns a write that deletes a record.
func remove(r record) write {
	return write{subject: r.subject, on: r.sequence, dead: true, ttl: tombstoneTTL}
}

func (c *recordStream) message(call uint64, w *write) *nats.Msg {
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

// commit publishes all writes atomically with consecutive sequences, and returns the sequence of the first write. The
// argument since is the time at which the first attempt began.
func (c *recordStream) commit(ctx context.Context, since time.Time, call uint64, writes []write) (first uint64, err error) {
	messages := make([]*nats.Msg, len(writes))
	for i := range writes {
		if limit := c.s.write.MaxPayload() - maxHeaders; int64(len(writes[i].body)) > limit {
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
	return c.s.publishBatch(ctx, since, messages)
}

// errUnproven is returned by a step function that requires a proven reading.
var errUnproven = errors.New("jetstream: the state must be read again")

// change reads subjects and commits the writes returned by step. If a record has changed since it was read, change
// rereads the subjects. A final result, which is an error from step or an empty list of writes, is always based on a
// proven reading. It returns the sequence of the first write, or 0 without writes. If the response to a commit was
// lost, change reads the records again and identifies its messages by their call (JS-6).
func (c *recordStream) change(ctx context.Context, subjects []string, step func(*reading) ([]write, error)) (first uint64, err error) {
	began, call, proven := time.Now(), mathrand.Uint64(), false
	var unsure []write // sent without a response
	final := false     // the error is certain, and no write of this change is stored
	err = retry(ctx, func() (again bool, err error) {
		look := subjects
		for _, w := range unsure {
			look = append(slices.Clip(look), w.subject)
		}
		r, err := c.read(ctx, proven, look...)
		if err != nil {
			return c.canRetry(ctx, err), err
		}
		known := true
		if len(unsure) > 0 {
			var is bool
			if first, is, known = findWrites(r, unsure, call); is {
				return false, nil
			}
		}
		writes, err := step(r)
		if err != nil || len(writes) == 0 {
			if !proven {
				proven = true
				return true, errUnproven
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
		return err != nil && c.canRetry(ctx, err), err
	})
	if err != nil && len(unsure) > 0 && !final {
		return 0, fmt.Errorf("%w: %w", store.ErrUncertain, err)
	}
	return first, err
}

// findWrites reports whether the reading contains writes whose response was lost, and returns the sequence of the first
// write. The result known is false if the writes may still arrive.
func findWrites(r *reading, writes []write, call uint64) (first uint64, is, known bool) {
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

// encodeToken encodes a string as a subject token. Its inverse is detoken.
func encodeToken(text string) string {
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
