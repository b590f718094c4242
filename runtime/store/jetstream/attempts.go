package jetstream

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/attemptlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// attemptSubject returns a new subject for an update's attempts. Its last token is the number of attempts.
func attemptSubject(id string, generation uint64, n int) string {
	return "a." + encodeToken(id) + "." + strconv.FormatUint(generation, 16) + "." + nonce() + "." + strconv.Itoa(n)
}

// parseAttemptSubject returns the subscription and the number of attempts that are encoded in a subject. The number is
// 0 for a proof subject.
func parseAttemptSubject(subject string) (id string, n int) {
	part := strings.Split(subject, ".")
	if len(part) != 5 {
		return "", 0
	}
	n, _ = strconv.Atoi(part[4])
	return detoken(part[1]), n
}

// scanAttempts reads attempts with subjects that begin with prefix, in the order in which they were written. If limit
// is positive, it stops after about limit records.
func (s *Store) scanAttempts(ctx context.Context, prefix string, limit int) ([]record, error) {
	found, _, err := s.state.scan(ctx, prefix+">", s.proofSubject(prefix), 1, limit)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(r record) bool {
		_, n := parseAttemptSubject(r.subject)
		return n == 0 || !r.exists()
	}), nil
}

// Attempts implements [engine.Attempts].
func (s *Store) Attempts(ctx context.Context, subscription string, limit int) (found []operator.Attempt, err error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := s.state.read(ctx, true, recordSubject(shardPattern, subscription))
	if err != nil {
		return nil, s.wrapClosed(err)
	}
	rec, x, err := findSubscription(r, subscription)
	if err != nil || rec.sequence == 0 || limit <= 0 {
		return nil, err
	}
	rows, err := s.scanAttempts(ctx, "a."+encodeToken(subscription)+"."+strconv.FormatUint(x.Generation, 16)+".", 0)
	if err != nil {
		return nil, s.wrapClosed(err)
	}
	encoded := make([][]byte, 0, len(rows))
	for _, r := range slices.Backward(rows) {
		encoded = append(encoded, r.body)
	}
	if found, err = attemptlog.Latest(encoded, limit); err != nil {
		return nil, fmt.Errorf("reading the attempts of subscription %s: %w", subscription, err)
	}
	return found, nil
}

// TrimAttempts implements [engine.Attempts]. Several replicas can trim concurrently. Each replica enforces
// PerSubscription only for subscriptions that it has written attempts for. Any replica can delete attempts that exceed
// MaxAge or Total.
func (s *Store) TrimAttempts(ctx context.Context, b engine.AttemptBounds, now time.Time, limit int) (more bool, err error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	more, err = s.trimmer.Trim(ctx, attemptTable{s}, b, now, limit)
	return more, s.wrapClosed(err)
}

// forgetAttempts deletes the attempts of a deleted subscription. If the deletion fails, the attempts remain until they
// expire, but can no longer be read.
func (s *Store) forgetAttempts(ctx context.Context, id string, generation uint64) {
	err := s.purge(ctx, s.state, "a."+encodeToken(id)+"."+strconv.FormatUint(generation, 16)+".>", beyond)
	if err != nil {
		s.log.Debug("jetstream: the attempts of a subscription were not deleted", "subscription", id, "error", err)
	}
}

// purge deletes the messages that match the filter and precede the given sequence.
func (s *Store) purge(ctx context.Context, c *recordStream, filter string, before uint64) error {
	return s.callAPI(ctx, "STREAM.PURGE."+c.stream, map[string]any{"filter": c.prefix + filter, "seq": before}, nil)
}

// attemptTable implements [attemptlog.Table].
type attemptTable struct{ s *Store }

func (t attemptTable) byID(ctx context.Context) (counts map[string]int, err error) {
	subjects, err := t.s.listSubjects(ctx, "a.>")
	counts = map[string]int{}
	for _, subject := range subjects {
		if id, n := parseAttemptSubject(subject); n > 0 {
			counts[id] += n
		}
	}
	return counts, err
}

func (t attemptTable) CountAttempts(ctx context.Context) (n int, err error) {
	counts, err := t.byID(ctx)
	for _, some := range counts {
		n += some
	}
	return n, err
}

func (t attemptTable) Crowded(ctx context.Context, bound int) (ids []string, err error) {
	counts, err := t.byID(ctx)
	for id, n := range counts {
		if n > bound {
			ids = append(ids, id)
		}
	}
	return ids, err
}

func row(r record) (attemptlog.Row, error) {
	_, n := parseAttemptSubject(r.subject)
	made, err := attemptlog.Decode(r.body)
	if err != nil || len(made) == 0 {
		return attemptlog.Row{}, fmt.Errorf("%w: %s: %w", ErrCorrupt, r.subject, err)
	}
	return attemptlog.Row{Sequence: int64(r.sequence), Last: scalar.Nanos(made[len(made)-1].At), Count: n}, nil
}

func (t attemptTable) rows(ctx context.Context, prefix string, limit int) (rows []attemptlog.Row, err error) {
	found, err := t.s.scanAttempts(ctx, prefix, limit)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		one, err := row(r)
		if err != nil {
			return nil, err
		}
		rows = append(rows, one)
	}
	return rows, nil
}

func (t attemptTable) OldestRows(ctx context.Context, limit int) ([]attemptlog.Row, error) {
	rows, err := t.rows(ctx, "a.", limit)
	return rows[:min(len(rows), limit)], err
}

func (t attemptTable) RowsOf(ctx context.Context, subscription string, limit int) ([]attemptlog.Row, error) {
	rows, err := t.rows(ctx, "a."+encodeToken(subscription)+".", 0)
	slices.Reverse(rows)
	return rows[:min(len(rows), limit)], err
}

func (t attemptTable) DeleteRows(ctx context.Context, upTo int64) error {
	return t.s.purge(ctx, t.s.state, "a.>", uint64(upTo)+1)
}

func (t attemptTable) DeleteRowsOf(ctx context.Context, subscription string, upTo int64, limit int) error {
	rows, err := t.rows(ctx, "a."+encodeToken(subscription)+".", 0)
	if err != nil {
		return err
	}
	n := 0
	for n < min(len(rows), limit) && rows[n].Sequence <= upTo {
		n++
	}
	if n == 0 {
		return nil
	}
	return t.s.purge(ctx, t.s.state, "a."+encodeToken(subscription)+".>", uint64(rows[n-1].Sequence)+1)
}
