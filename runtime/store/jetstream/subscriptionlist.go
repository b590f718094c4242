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
	// listed is how long a list of ids is used for the following pages.
	listed = 10 * time.Second
	// recordsAtOnce is the number of records that one request reads, each with its progress.
	recordsAtOnce = 200
)

// A list holds the ids and subjects of all subscriptions, in order of their ids.
type list struct {
	at  time.Time
	all []listedRecord
}

type listedRecord struct{ id, subject string }

// Subscriptions implements [store.SubscriptionStore]. Each page shows the subscriptions at the time of the call.
func (s *Store) Subscriptions(ctx context.Context, after string, limit int) (page []store.Subscription, err error) {
	err = s.one(ctx, "list", func(ctx context.Context) error {
		if after == "" || time.Since(s.list.at) > listed {
			if err := s.listAll(ctx); err != nil {
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
				if rec := r.of(x.subject); rec.there() {
					page = s.readable(page, rec, r.of)
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

// readable decodes a subscription and appends it to subs. It logs and skips a subscription that cannot be decoded, so
// that it does not block the others; the record stays in the stream.
func (s *Store) readable(subs []store.Subscription, rec record, of func(subject string) record) []store.Subscription {
	x, err := subscribedIn(rec)
	var sub store.Subscription
	if err == nil {
		sub, err = s.subscription(rec, of(rec.subject+"."+strconv.FormatUint(x.Generation, 16)))
	}
	if err != nil {
		s.log.Error("jetstream: a webhook subscription cannot be read and is skipped", "subject", rec.subject, "error", err)
		return subs
	}
	return append(subs, sub)
}

// listAll lists the subjects of all records.
func (s *Store) listAll(ctx context.Context) error {
	subjects, err := s.subjects(ctx, anyShard+"r.*")
	if err != nil {
		return err
	}
	s.list = list{at: time.Now()}
	for _, subject := range subjects {
		if last := subject[strings.LastIndex(subject, ".")+1:]; !strings.HasPrefix(last, "-") {
			s.list.all = append(s.list.all, listedRecord{detoken(last), subject})
		}
	}
	slices.SortFunc(s.list.all, func(a, b listedRecord) int { return cmp.Compare(a.id, b.id) })
	return nil
}

// subjects returns the subjects of the state that match a filter and have a message. The list is as recent as the
// call.
func (s *Store) subjects(ctx context.Context, filter string) (found []string, err error) {
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
		err := asLong(ctx, func() (bool, error) {
			err := s.api(ctx, "STREAM.INFO."+s.state.stream, map[string]any{"subjects_filter": s.state.prefix + filter, "offset": offset}, &info)
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
