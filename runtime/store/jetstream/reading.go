package jetstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
)

// A reading contains the latest records of a set of subjects.
type reading struct {
	proven bool // it is as recent as the call
	all    map[string]record
}

// of returns a subject's record.
func (r *reading) of(subject string) record {
	if x, ok := r.all[subject]; ok {
		return x
	}
	return record{subject: subject}
}

// findMatching returns the existing records with subjects that match a pattern. A * in the pattern matches one token.
func (r *reading) findMatching(pattern string) (found []record) {
	want := strings.Split(pattern, ".")
	for subject, x := range r.all {
		if x.exists() && matches(want, strings.Split(subject, ".")) {
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

// maxReadSubjects is the maximum number of subjects per read request. A server rejects a request that matches more than
// 1,024 subjects.
const maxReadSubjects = 400

// read reads the last message of each subject. Subjects can contain wildcards, but together they can match at most
// 1,000 subjects.
func (c *recordStream) read(ctx context.Context, proven bool, subjects ...string) (*reading, error) {
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
		n := min(len(subjects), maxReadSubjects)
		list := make([]string, 0, n+1)
		for _, subject := range subjects[:n] {
			list = append(list, c.prefix+subject)
		}
		subjects = subjects[n:]
		if proven {
			list = append(list, c.prefix+c.proof)
		}
		err := retry(ctx, func() (bool, error) {
			found := map[string]record{}
			_, err := c.s.pull(ctx, c.stream, map[string]any{"multi_last": list}, func(m *nats.Msg) error {
				x, err := c.decodeRecord(m)
				found[x.subject] = x
				return err
			})
			if err != nil {
				return c.canRetry(ctx, err), err
			}
			if x := found[c.proof]; proven && x.sequence < at {
				return true, fmt.Errorf("%w: a server of %s is behind", ErrUnreachable, c.stream)
			} else if proven {
				c.s.clock.observe(x.stamp)
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

// readProven reads the last message of each subject of the state, as [recordStream.read] does.
func (s *Store) readProven(ctx context.Context, subjects ...string) (*reading, error) {
	ctx, done, err := s.beginCall(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := s.state.read(ctx, true, subjects...)
	return r, s.wrapClosed(err)
}

// readLeader reads subjects without wildcards from the stream's leader. A former leader that has not yet detected its
// successor can also respond, and the response does not reveal that. A write based on such a response is rejected
// (JS-16), but a returned result, such as a completed action, can be briefly stale.
func (c *recordStream) readLeader(ctx context.Context, r *reading, subjects []string) error {
	if r.proven {
		if err := c.s.checkQuorum(ctx, c.stream); err != nil {
			return err
		}
	}
	for _, subject := range subjects {
		m, found, err := c.s.fetchMessage(ctx, c.stream, map[string]any{"last_by_subj": c.prefix + subject})
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
		x.subject, x.sequence, x.stamp = subject, m.Sequence, c.s.clock.appendTime(m.Time)
		r.all[subject] = x
	}
	return nil
}

// scan reads all records that match a filter, starting at sequence from, in order and including deleted records. The
// subject mark is used for the proof and must match the filter. A single page is a consistent snapshot. If there are
// several pages, scan reads the messages written since then in further rounds, until a round has only one page. The
// result upTo is the last sequence read, which is less than from if the stream ends before from. If limit is positive,
// scan stops once it has read limit records.
func (c *recordStream) scan(ctx context.Context, filter, mark string, from uint64, limit int) (found []record, upTo uint64, err error) {
	return c.scanWithProof(ctx, c.writeMarker, filter, mark, from, limit)
}

// scanWithProof is like scan, but calls prove to write the proofs.
func (c *recordStream) scanWithProof(ctx context.Context, prove func(ctx context.Context, mark string) (at uint64, err error), filter, mark string, from uint64, limit int) (found []record, upTo uint64, err error) {
	for {
		at, err := prove(ctx, mark)
		if err != nil {
			return nil, 0, err
		}
		if at < from { // nothing was written later, or the stream was recreated
			return found, at, nil
		}
		page := pageMax
		if limit > 0 {
			page = min(page, limit)
		}
		pages, next := 0, from
		for seen := false; ; {
			var some []record
			var more bool
			err := retry(ctx, func() (bool, error) {
				some = nil
				more, err = c.s.pull(ctx, c.stream, map[string]any{"seq": next, "next_by_subj": c.prefix + filter, "batch": page, "max_bytes": pageBytes},
					func(m *nats.Msg) error {
						x, err := c.decodeRecord(m)
						some = append(some, x)
						return err
					})
				if err != nil {
					return c.canRetry(ctx, err), err
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
			if limit > 0 && len(found) >= limit {
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
