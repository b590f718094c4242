package jetstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const (
	// listTTL is how long a list of ids is used for subsequent pages.
	listTTL = 10 * time.Second
	// recordsAtOnce is the maximum number of records per request. The request also reads their progress.
	recordsAtOnce = 200
)

// An idList contains the ids and subjects of all subscriptions, ordered by id.
type idList struct {
	at  time.Time
	all []listedRecord
}

type listedRecord struct{ id, subject string }

// Subscriptions implements [store.SubscriptionStore]. Each page contains the subscriptions at the time of the call.
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) (page []store.Subscription, err error) {
	err = s.withLock(ctx, "list", func(ctx context.Context) error {
		if after == "" || time.Since(s.list.at) > listTTL {
			if err := s.loadList(ctx); err != nil {
				return err
			}
		}
		all := s.list.all
		i, found := slices.BinarySearchFunc(all, after, func(x listedRecord, id string) int { return cmp.Compare(x.id, id) })
		if found {
			i++
		}
		for all = all[i:]; len(all) > 0 && len(page) < limit; {
			n := min(len(all), recordsAtOnce, limit-len(page))
			var subjects []string
			for _, x := range all[:n] {
				subjects = append(subjects, x.subject, x.subject+".*")
			}
			r, err := s.state.read(ctx, true, subjects...)
			if err != nil {
				return err
			}
			for _, x := range all[:n] {
				if rec := r.of(x.subject); rec.exists() {
					page = s.appendReadable(page, rec, r.of)
				}
			}
			all = all[n:]
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// appendReadable decodes a subscription and appends it to subs. It logs and skips a subscription that cannot be
// decoded, so the other subscriptions remain usable. The record remains in the stream.
func (s *Store) appendReadable(subs []store.Subscription, rec record, of func(subject string) record) []store.Subscription {
	x, err := decodeSubscription(rec)
	var sub store.Subscription
	if err == nil {
		sub, err = s.decodeWithProgress(rec, of(rec.subject+"."+strconv.FormatUint(x.Generation, 16)))
	}
	if err != nil {
		s.log.Error("jetstream: a webhook subscription cannot be read and is skipped", "subject", rec.subject, "error", err)
		return subs
	}
	return append(subs, sub)
}

// loadList loads the ids and subjects of all subscriptions.
func (s *Store) loadList(ctx context.Context) error {
	subjects, err := s.listSubjects(ctx, shardPattern+"r.*")
	if err != nil {
		return err
	}
	s.list = idList{at: time.Now()}
	for _, subject := range subjects {
		if last := subject[strings.LastIndex(subject, ".")+1:]; !strings.HasPrefix(last, "-") {
			s.list.all = append(s.list.all, listedRecord{detoken(last), subject})
		}
	}
	slices.SortFunc(s.list.all, func(a, b listedRecord) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// listSubjects returns the subjects of the state that match a filter and have a message. The result is at least as
// recent as the call.
func (s *Store) listSubjects(ctx context.Context, filter string) (found []string, err error) {
	at, err := s.state.prove(ctx)
	if err != nil {
		return nil, err
	}
	for offset := 0; ; {
		var info struct {
			jetstream.StreamInfo
			Total int `json:"total"`
			Limit int `json:"limit"`
		}
		err := retry(ctx, func() (bool, error) {
			err := s.callAPI(ctx, "STREAM.INFO."+s.state.stream, map[string]any{"subjects_filter": s.state.prefix + filter, "offset": offset}, &info)
			if err == nil && info.State.LastSeq < at {
				return true, fmt.Errorf("%w: the leader of %s is behind", ErrUnreachable, s.state.stream)
			}
			return false, err
		})
		if err != nil {
			return nil, err
		}
		for subject := range info.State.Subjects {
			found = append(found, strings.TrimPrefix(subject, s.state.prefix))
		}
		if offset += info.Limit; info.Limit == 0 || offset >= info.Total {
			return found, nil
		}
	}
}
