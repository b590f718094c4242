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

// Codes of the server API errors that this package handles.
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
	// Batch errors: too many batches are in flight, or a message was lost in transit. The batch was not stored.
	codeTooManyBatches jetstream.ErrorCode = 10210
	codeIncomplete     jetstream.ErrorCode = 10176
	beyond                                 = uint64(1) << 62 // a sequence that no stream reaches
	pageMax                                = 512
	pageBytes                              = 8 << 20
)

// errUnanswered is returned if a request was sent but no response arrived in time. The request may have had an effect.
var errUnanswered = fmt.Errorf("%w: the request was sent", ErrUnreachable)

// apiErrorCode returns the code of a server API error, or 0 for any other error.
func apiErrorCode(err error) jetstream.ErrorCode {
	var e *jetstream.APIError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	return 0
}

// request sends a request and returns the response. The error matches errUnanswered if the request may have had an
// effect. If the error matches only ErrUnreachable, the request had no effect.
func (s *Store) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	began := time.Now()
	one, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	r, err := s.write.RequestMsgWithContext(one, m)
	if err == nil && s.lose != nil && s.lose(m) {
		err = context.DeadlineExceeded
	}
	if err == nil {
		return r, nil
	}
	switch {
	case s.wasDenied(m.Subject, began):
		return nil, fmt.Errorf("%w: to publish to %s", ErrRights, m.Subject)
	case s.subscribeError() != nil:
		return nil, s.subscribeError()
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrMaxPayload):
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreachable, m.Subject, err)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", errUnanswered, ctx.Err())
	}
	return nil, fmt.Errorf("%w: %s: %w", errUnanswered, m.Subject, err)
}

// wasDenied reports whether the server has denied a publish to the subject since the given time.
func (s *Store) wasDenied(subject string, since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.denied[subject]
	return ok && !at.Before(since)
}

// subscribeError returns an error if the user is not permitted to subscribe to a subject. In that case, responses or
// republished messages are not received.
func (s *Store) subscribeError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unheard == "" {
		return nil
	}
	return fmt.Errorf("%w: to subscribe to %s", ErrRights, s.unheard)
}

// retry calls f until f returns false, the context is done, or callTimeout has passed. It waits 1 to 250 ms between
// calls.
func retry(ctx context.Context, f func() (again bool, err error)) error {
	end := time.Now().Add(callTimeout)
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

// callAPI sends a request to the server API and retries until it receives a response. The arguments body and answer may
// be nil. If the server rejects the request, the error is or wraps a *jetstream.APIError.
func (s *Store) callAPI(ctx context.Context, op string, body, answer any) error {
	m := nats.NewMsg("$JS.API." + op)
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		m.Data = b
	}
	return retry(ctx, func() (bool, error) {
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

// leaderInfo returns the stream information from the stream's leader. It retries while the stream has no leader or if
// another server responds. A server that has just started can return incomplete state, name the leader, or report that
// the stream does not exist.
func (s *Store) leaderInfo(ctx context.Context, stream string) (*jetstream.StreamInfo, error) {
	var info *jetstream.StreamInfo
	err := retry(ctx, func() (bool, error) {
		info = &jetstream.StreamInfo{}
		err := s.callAPI(ctx, "STREAM.INFO."+stream, nil, info)
		if s.absent != nil && s.absent(stream) {
			err = &jetstream.APIError{ErrorCode: codeNoStream}
		}
		if apiErrorCode(err) == codeNoStream {
			switch proof := s.checkQuorum(ctx, stream); {
			case proof == nil:
				return true, fmt.Errorf("%w: a server does not know stream %s yet", ErrUnreachable, stream)
			case apiErrorCode(proof) != codeNoStream:
				return false, proof
			}
		}
		if err != nil {
			return false, err
		}
		if !isLeader(info) {
			return true, fmt.Errorf("%w: stream %s has no leader", ErrUnreachable, stream)
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	if ahead := s.clock.observe(info.TimeStamp); ahead > time.Second {
		s.log.Warn("jetstream: the leader's clock is ahead; servers' clocks must agree", "stream", stream, "by", ahead)
	}
	return info, nil
}

// isLeader reports whether the server that returned info is the stream's leader.
func isLeader(info *jetstream.StreamInfo) bool {
	c := info.Cluster
	return c == nil || c.Leader != "" && (c.RaftGroup == "" || c.LeaderSince != nil)
}

// provenInfo checks that the stream has a quorum, and then returns the leader's stream information. The information
// therefore covers all messages acknowledged before the call (JS-9).
func (s *Store) provenInfo(ctx context.Context, stream string) (info *jetstream.StreamInfo, err error) {
	err = retry(ctx, func() (bool, error) {
		began := time.Now()
		gone := s.checkQuorum(ctx, stream)
		if gone != nil && apiErrorCode(gone) != codeNoStream {
			return false, gone
		}
		if info, err = s.leaderInfo(ctx, stream); err != nil {
			return false, err
		}
		if gone != nil || !ledThroughout(info, time.Since(began)) {
			return true, fmt.Errorf("%w: the leader of stream %s changes", ErrUnreachable, stream)
		}
		return false, nil
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// ledThroughout reports whether the server that returned info has been the stream's leader for the whole duration.
// During that time, it must also have received messages from enough replicas for a majority, which proves that it had
// the quorum. A leader that was paused or partitioned does not immediately detect a new leader, and a newly elected
// leader may still lack messages.
func ledThroughout(info *jetstream.StreamInfo, within time.Duration) bool {
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

// checkQuorum checks that the stream has a quorum. It requests the deletion of a nonexistent message, which requires a
// quorum but changes nothing.
func (s *Store) checkQuorum(ctx context.Context, stream string) error {
	err := s.callAPI(ctx, "STREAM.MSG.DELETE."+stream, map[string]any{"seq": beyond, "no_erase": true}, nil)
	switch {
	case apiErrorCode(err) == codeDeleteNothing:
		return nil
	case err == nil:
		return fmt.Errorf("%w: stream %s had a message at sequence %d", ErrForeign, stream, beyond)
	}
	return err
}

// publish sends a message that is stored only if the last message of the subject has the sequence expect; 0 means that
// the subject must have no messages. The error is a *wrongSequence, errUndecided, or an error from request.
func (s *Store) publish(ctx context.Context, subject string, body []byte, expect uint64) (sequence uint64, err error) {
	return s.publishAcknowledged(ctx, &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(expect, 10)},
	}})
}

// publishAcknowledged publishes a message, waits for the acknowledgment and returns the sequence. The error is a
// *wrongSequence, errUndecided, or an error from request.
func (s *Store) publishAcknowledged(ctx context.Context, m *nats.Msg) (sequence uint64, err error) {
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

// publishBatch publishes messages atomically with consecutive sequences, and returns the sequence of the first message.
// The argument since is the time at which the caller's first attempt began. The server reports a missing permission
// before it responds, but the error handler may run after the response. In that case, only the next attempt returns
// ErrRights.
func (s *Store) publishBatch(ctx context.Context, since time.Time, messages []*nats.Msg) (first uint64, err error) {
	if len(messages) == 1 {
		return s.publishAcknowledged(ctx, messages[0])
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
	sequence, err := s.publishAcknowledged(ctx, messages[last])
	if errors.Is(err, errUndecided) {
		for _, m := range messages {
			if s.wasDenied(m.Subject, since) {
				return 0, fmt.Errorf("%w: to publish to %s", ErrRights, m.Subject)
			}
		}
	}
	if err != nil {
		return 0, err
	}
	return sequence - uint64(last), nil
}

// errUndecided is returned if a message was rejected because another message for the same subject is in flight.
var errUndecided = errors.New("jetstream: another write of this subject is in progress")

// A wrongSequence error contains the sequence of the subject's last message, or 0 if the subject has no messages.
type wrongSequence struct{ stands uint64 }

func (e *wrongSequence) Error() string {
	return fmt.Sprintf("jetstream: the id stands at %d", e.stands)
}

// A rawMessage is a message returned by the leader of its stream.
type rawMessage struct {
	Sequence uint64    `json:"seq"`
	Data     []byte    `json:"data"`
	Time     time.Time `json:"time"`
}

// fetchMessage reads one message from the leader, either by sequence or as the last message of a subject. The result
// found is false if the message does not exist.
func (s *Store) fetchMessage(ctx context.Context, stream string, by map[string]any) (m rawMessage, found bool, err error) {
	var answer struct {
		Message rawMessage `json:"message"`
	}
	err = s.callAPI(ctx, "STREAM.MSG.GET."+stream, by, &answer)
	if apiErrorCode(err) == codeNoMessage {
		return m, false, nil
	}
	return answer.Message, err == nil, err
}

// fetchEntry is like fetchMessage, but decodes a log entry.
func (s *Store) fetchEntry(ctx context.Context, stream string, by map[string]any) (e storedEntry, found bool, err error) {
	m, found, err := s.fetchMessage(ctx, stream, by)
	if err != nil || !found {
		return e, false, err
	}
	e, err = s.decodeEntry(stream, m.Sequence, m.Time, m.Data)
	return e, err == nil, err
}

// fetchPage reads up to n entries from any server, starting at a sequence or at the first entry that is not before a
// time. If that server lags, entries can be missing.
func (s *Store) fetchPage(ctx context.Context, stream string, by map[string]any, n int) (found []storedEntry, err error) {
	by["batch"], by["max_bytes"] = n, pageBytes
	_, err = s.pull(ctx, stream, by, func(m *nats.Msg) error {
		e, err := s.entryFromMessage(stream, m)
		found = append(found, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// pull reads messages from any server and calls handle for every message. The result more reports whether the server
// has more messages.
func (s *Store) pull(ctx context.Context, stream string, by map[string]any, handle func(*nats.Msg) error) (more bool, err error) {
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
	one, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	subject := "$JS.API.DIRECT.GET." + stream
	if err := s.write.PublishRequest(subject, inbox, body); err != nil {
		return false, fmt.Errorf("%w: %s: %w", ErrUnreachable, subject, err)
	}
	for {
		m, err := sub.NextMsgWithContext(one)
		if err != nil {
			switch {
			case s.wasDenied(subject, began):
				return false, fmt.Errorf("%w: to publish to %s", ErrRights, subject)
			case s.subscribeError() != nil:
				return false, s.subscribeError()
			case ctx.Err() != nil:
				return false, ctx.Err()
			}
			return false, fmt.Errorf("%w: %s: %w", ErrUnreachable, subject, err)
		}
		status, text := m.Header.Get("Status"), m.Header.Get("Description")
		switch {
		case status == "":
			if err := handle(m); err != nil {
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

// entryFromMessage decodes the entry of a message, with the sequence and time from its headers.
func (s *Store) entryFromMessage(stream string, m *nats.Msg) (storedEntry, error) {
	sequence, at, err := messagePosition(stream, m)
	if err != nil {
		return storedEntry{}, err
	}
	return s.decodeEntry(stream, sequence, at, m.Data)
}

// messagePosition returns the sequence and time of a message returned by a direct read.
func messagePosition(stream string, m *nats.Msg) (sequence uint64, at time.Time, err error) {
	if sequence, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
		return 0, at, fmt.Errorf("%w: %s: a message without a sequence", ErrServer, stream)
	}
	if at, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
		return 0, at, fmt.Errorf("%w: %s: a message without a time", ErrServer, stream)
	}
	return sequence, at, nil
}
