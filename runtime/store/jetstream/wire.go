package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Codes of the server's API errors that this package handles.
const (
	codeNoMessage     jetstream.ErrorCode = 10037
	codeDeleteNothing jetstream.ErrorCode = 10057
	codeNameInUse     jetstream.ErrorCode = 10058
	codeNoStream      jetstream.ErrorCode = 10059
	codeWrongSequence jetstream.ErrorCode = 10071
	codeUndecided     jetstream.ErrorCode = 10164
	codeNotEnabled    jetstream.ErrorCode = 10076
	codeNotInAccount  jetstream.ErrorCode = 10039
	codeOverlap       jetstream.ErrorCode = 10065
	codeNoReplicas    jetstream.ErrorCode = 10074
	codeTooFewServers jetstream.ErrorCode = 10005
	codeUnavailable   jetstream.ErrorCode = 10008
	// Errors of batches: too many are in flight, or a message was lost on the way. Nothing of the batch is in the
	// stream.
	codeTooManyBatches jetstream.ErrorCode = 10210
	codeIncomplete     jetstream.ErrorCode = 10176
	beyond                                 = uint64(1) << 62 // a sequence that no stream reaches
	pageMax                                = 512
	pageBytes                              = 8 << 20
)

// errUnanswered reports that a request was sent and no answer came in time: it may have had its effect.
var errUnanswered = fmt.Errorf("%w: the request was sent", ErrUnreachable)

// code returns the code of a server's API error, or 0 for any other error.
func code(err error) jetstream.ErrorCode {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	return 0
}

// request sends one request and returns its answer. Its error matches errUnanswered if the request may have had an
// effect. Any other error that matches ErrUnreachable means that it had none.
func (s *Store) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := time.Now()
	one, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	r, err := s.write.RequestMsgWithContext(one, m)
	if err == nil && s.lose != nil && s.lose(m) {
		err = context.DeadlineExceeded
	}
	if err == nil {
		return r, nil
	}
	switch {
	case s.lacks(m.Subject, began):
		return nil, fmt.Errorf("%w: to publish to %s", ErrRights, m.Subject)
	case s.deaf() != nil:
		return nil, s.deaf()
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrMaxPayload):
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, m.Subject, err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", errUnanswered, ctx.Err())
	}
	return nil, fmt.Errorf("%w: %s: %w", errUnanswered, m.Subject, err)
}

// lacks reports whether the server has denied a publish to the subject since the given time.
func (s *Store) lacks(subject string, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.denied[subject]
	return ok && !at.Before(since)
}

// deaf returns an error if the user may not subscribe to a subject. Answers or republished messages do not arrive
// then.
func (s *Store) deaf() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unheard == "" {
		return nil
	}
	return fmt.Errorf("%w: to subscribe to %s", ErrRights, s.unheard)
}

// asLong calls f until it needs no retry, the context ends or patience has passed. It waits 1 to 250 ms between
// calls.
func asLong(ctx context.Context, f func() (again bool, err error)) error {
	end := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		again, err := f()
		if !again || time.Now().After(end) {
			return err
		}
		t := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-ctx.Done():
			t.Stop()
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-t.C:
		}
	}
}

// api sends a request to the server's API and retries until it is answered. body and answer may be nil. If the server
// refuses the request, the error is or wraps a *jetstream.APIError.
func (s *Store) api(ctx context.Context, op string, body, answer any) error {
	m := nats.NewMsg("$JS.API." + op)
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		m.Data = b
	}
	return asLong(ctx, func() (bool, error) {
		r, err := s.request(ctx, m)
		if err != nil {
			return errors.Is(err, ErrUnreachable) && ctx.Err() == nil && !s.write.IsClosed(), err
		}
		var head struct {
			Error *jetstream.APIError `json:"error"`
		}
		if err := json.Unmarshal(r.Data, &head); err != nil {
			return false, fmt.Errorf("%w: the answer to %s is not JSON: %w", ErrServer, op, err)
		}
		switch {
		case head.Error == nil:
		case head.Error.ErrorCode == codeUnavailable:
			return true, fmt.Errorf("%w: %w", ErrUnreachable, head.Error)
		case head.Error.ErrorCode == codeNotEnabled || head.Error.ErrorCode == codeNotInAccount:
			return false, fmt.Errorf("%w: %w", ErrUnreachable, head.Error)
		case head.Error.ErrorCode == codeOverlap:
			return false, fmt.Errorf("%w: %s: a stream of another name takes its subjects: %w", ErrForeign, op, head.Error)
		case head.Error.ErrorCode == codeNoReplicas || head.Error.ErrorCode == codeTooFewServers:
			return false, fmt.Errorf("%w: %w", ErrReplicas, head.Error)
		default:
			return false, head.Error
		}
		if answer == nil {
			return false, nil
		}
		return false, json.Unmarshal(r.Data, answer)
	})
}

// info returns the information of the stream's leader. It retries while the stream has no leader, and when another
// server answered: a server that has just started may answer from an incomplete state and name the leader, or deny
// that the stream exists.
func (s *Store) info(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	var info *jetstream.StreamInfo
	err := asLong(ctx, func() (bool, error) {
		info = &jetstream.StreamInfo{}
		err := s.api(ctx, "STREAM.INFO."+stream, nil, info)
		if s.absent != nil && s.absent(stream) {
			err = &jetstream.APIError{ErrorCode: codeNoStream}
		}
		if code(err) == codeNoStream {
			switch proof := s.barrier(ctx, stream); {
			case proof == nil:
				return true, fmt.Errorf("%w: a server does not know stream %s yet", ErrUnreachable, stream)
			case code(proof) != codeNoStream:
				return false, proof
			}
		}
		if err != nil {
			return false, err
		}
		if !leads(info) {
			return true, fmt.Errorf("%w: stream %s has no leader", ErrUnreachable, stream)
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if ahead := s.clock.hear(info.TimeStamp); ahead > time.Second {
		s.log.Warn("jetstream: the leader's clock is ahead; servers' clocks must agree", "stream", stream, "by", ahead)
	}
	return info, nil
}

// leads reports whether the server that answered leads the stream.
func leads(info *jetstream.StreamInfo) bool {
	c := info.Cluster
	return c == nil || c.Leader != "" && (c.RaftGroup == "" || c.LeaderSince != nil)
}

// proven proves that the stream has a quorum and then returns its leader's information. The information therefore
// includes everything that was acknowledged before the call (JS-9).
func (s *Store) proven(ctx context.Context, stream string) (info *jetstream.StreamInfo, err error) {
	err = asLong(ctx, func() (bool, error) {
		began := time.Now()
		gone := s.barrier(ctx, stream)
		if gone != nil && code(gone) != codeNoStream {
			return false, gone
		}
		if info, err = s.info(ctx, stream); err != nil {
			return false, err
		}
		if gone != nil || !ruled(info, time.Since(began)) {
			return true, fmt.Errorf("%w: the leader of stream %s changes", ErrUnreachable, stream)
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ruled reports whether the server that answered has led the stream for all of the given duration. It must also have
// heard within it from enough replicas to form a majority: then the proof of a quorum was its own. A leader that was
// paused or partitioned does not know at first that another one was elected, and a leader elected since then may
// still miss messages.
func ruled(info *jetstream.StreamInfo, within time.Duration) bool {
	c := info.Cluster
	if c == nil || c.RaftGroup == "" {
		return true // the stream has one server
	}
	if led := info.TimeStamp.Sub(*c.LeaderSince); led >= 0 && led < within { // below 0: its clock was set back
		return false
	}
	heard := 1
	for _, r := range c.Replicas {
		if r.Active > 0 && r.Active <= within { // 0 for never
			heard++
		}
	}
	return heard > (len(c.Replicas)+1)/2
}

// barrier proves that the stream has a quorum. It deletes a message that cannot exist, which takes a quorum and
// changes nothing.
func (s *Store) barrier(ctx context.Context, stream string) error {
	err := s.api(ctx, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": beyond, "no_erase": true}, nil)
	switch {
	case code(err) == codeDeleteNothing:
		return nil
	case err == nil:
		return fmt.Errorf("%w: stream %s had a message at sequence %d", ErrForeign, stream, beyond)
	}
	return err
}

// publish appends to the subject's stream if the last message of the subject has the sequence expect, 0 if the
// subject must be empty. Its error is a *wrongSequence, errUndecided, or an error of request.
func (s *Store) publish(ctx context.Context, subject string, body []byte, expect uint64) (sequence uint64, err error) {
	return s.acknowledged(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(expect, 10)},
	}})
}

// acknowledged publishes a message and returns its sequence. Its error is a *wrongSequence, errUndecided, or an error
// of request.
func (s *Store) acknowledged(ctx context.Context, m *nats.Msg) (sequence uint64, err error) {
	r, err := s.request(ctx, m)
	if err != nil {
		return 0, err
	}
	var ack struct {
		Error    *jetstream.APIError `json:"error"`
		Sequence uint64              `json:"seq"`
	}
	if err := json.Unmarshal(r.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: %s: the answer is not JSON: %w", ErrServer, m.Subject, err)
	}
	if ack.Error == nil {
		if ack.Sequence == 0 {
			return 0, fmt.Errorf("%w: %s: an answer without a sequence", ErrServer, m.Subject)
		}
		return ack.Sequence, nil
	}
	switch ack.Error.ErrorCode {
	case codeUndecided, codeTooManyBatches, codeIncomplete:
		return 0, errUndecided
	case codeUnavailable:
		return 0, fmt.Errorf("%w: %w", errUnanswered, ack.Error)
	case codeWrongSequence:
		_, text, _ := strings.Cut(ack.Error.Description, ": ")
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %s: %w", ErrServer, m.Subject, ack.Error)
		}
		return 0, &wrongSequence{n}
	}
	return 0, fmt.Errorf("publish to %s: %w", m.Subject, ack.Error)
}

// batch publishes messages atomically and returns the sequence of the first; the others follow it. since is when the
// caller's first try began. The server reports a missing right before it answers, but the connection's handler may
// see that report after the answer, so that only the next try can return ErrRights.
func (s *Store) batch(ctx context.Context, since time.Time, messages []*nats.Msg) (first uint64, err error) {
	if len(messages) == 1 {
		return s.acknowledged(ctx, messages[0])
	}
	id, last := nonce(), len(messages)-1
	for i, m := range messages {
		m.Header.Set("Nats-Batch-Id", id)
		m.Header.Set("Nats-Batch-Sequence", strconv.Itoa(i+1))
		if i == last {
			m.Header.Set("Nats-Batch-Commit", "1")
			break
		}
		if err := s.write.PublishMsg(m); err != nil { // the server discards the earlier ones
			return 0, fmt.Errorf("%w: %s: %w", ErrUnreachable, m.Subject, err)
		}
	}
	sequence, err := s.acknowledged(ctx, messages[last])
	if errors.Is(err, errUndecided) {
		for _, m := range messages {
			if s.lacks(m.Subject, since) {
				return 0, fmt.Errorf("%w: to publish to %s", ErrRights, m.Subject)
			}
		}
	}
	if err != nil {
		return 0, err
	}
	return sequence - uint64(last), nil
}

// errUndecided reports that another message of the subject is in flight, so that this one was refused without a
// decision.
var errUndecided = errors.New("jetstream: another write of this subject is in progress")

// A wrongSequence reports the sequence of the subject's last message; 0 for none.
type wrongSequence struct{ stands uint64 }

func (e *wrongSequence) Error() string {
	return fmt.Sprintf("jetstream: the id stands at %d", e.stands)
}

// A kept is a message as the leader of its stream returns it.
type kept struct {
	Sequence uint64    `json:"seq"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// fetched reads one message from the leader, by its sequence or as the last of a subject. found is false if the
// message does not exist.
func (s *Store) fetched(ctx context.Context, stream string, by map[string]any) (m kept, found bool, err error) {
	var answer struct {
		Message kept `json:"message"`
	}
	err = s.api(ctx, "STREAM.MSG.GET."+stream, by, &answer)
	if code(err) == codeNoMessage {
		return m, false, nil
	}
	return answer.Message, err == nil, err
}

// message reads an entry of a log as fetched does.
func (s *Store) message(ctx context.Context, stream string, by map[string]any) (e stored, found bool, err error) {
	m, found, err := s.fetched(ctx, stream, by)
	if err != nil || !found {
		return e, false, err
	}
	e, err = s.entryAt(stream, m.Sequence, m.Time, m.Data)
	return e, err == nil, err
}

// page reads up to n entries from any server, starting at a sequence or at the first entry that is not before a time.
// If that server lags, there may be no entries, and there may be holes.
func (s *Store) page(ctx context.Context, stream string, by map[string]any, n int) (found []stored, err error) {
	by["batch"], by["max_bytes"] = n, pageBytes
	_, err = s.pull(ctx, stream, by, func(m *nats.Msg) error {
		e, err := s.fromHeader(stream, m)
		found = append(found, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// pull reads messages from any server and calls each with every one. more reports whether the server has more than it
// sent.
func (s *Store) pull(ctx context.Context, stream string, by map[string]any, each func(*nats.Msg) error) (more bool, err error) {
	body, err := json.Marshal(by)
	if err != nil || s.behind != nil && s.behind() {
		return false, err
	}
	began, inbox := time.Now(), s.write.NewInbox()
	sub, err := s.write.SubscribeSync(inbox)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer sub.Unsubscribe()
	one, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	subject := "$JS.API.DIRECT.GET." + stream
	if err := s.write.PublishRequest(subject, inbox, body); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrUnreachable, subject, err)
	}
	for {
		m, err := sub.NextMsgWithContext(one)
		if err != nil {
			switch {
			case s.lacks(subject, began):
				return false, fmt.Errorf("%w: to publish to %s", ErrRights, subject)
			case s.deaf() != nil:
				return false, s.deaf()
			case ctx.Err() != nil:
				return false, ctx.Err()
			}
			return false, fmt.Errorf("%w: %s: %w", ErrUnreachable, subject, err)
		}
		status, text := m.Header.Get("Status"), m.Header.Get("Description")
		switch {
		case status == "":
			if err := each(m); err != nil {
				return false, err
			}
		case status == "204":
			left := m.Header.Get("Nats-Num-Pending")
			return left != "" && left != "0", nil
		case status == "404" && (by["multi_last"] == nil || text == "No Results"):
			return false, nil
		default: // 404 of several: one was replaced during the read
			return false, fmt.Errorf("%w: %s: status %s %s", ErrUnreachable, subject, status, text)
		}
	}
}

// fromHeader returns the entry of a message whose headers name its place.
func (s *Store) fromHeader(stream string, m *nats.Msg) (stored, error) {
	sequence, at, err := place(stream, m)
	if err != nil {
		return stored{}, err
	}
	return s.entryAt(stream, sequence, at, m.Data)
}

// place returns the sequence and the time of a message that a server sent in answer to a direct read.
func place(stream string, m *nats.Msg) (sequence uint64, at time.Time, err error) {
	if sequence, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
		return 0, at, fmt.Errorf("%w: %s: a message without a sequence", ErrServer, stream)
	}
	if at, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
		return 0, at, fmt.Errorf("%w: %s: a message without a time", ErrServer, stream)
	}
	return sequence, at, nil
}
