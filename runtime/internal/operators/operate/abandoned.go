package operate

import (
	"cmp"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

func (a *Admin) Abandoned(ctx context.Context, f operator.Filter, since, until time.Time, after string, limit int) (page []operator.Abandoned, next string, err error) {
	if err := a.checkWindow(since, until); err != nil {
		return nil, "", err
	}
	from, err := parseAbandonedCursor(after)
	if err != nil {
		return nil, "", err
	}
	l := a.newQuery(ctx, f)
	limit = max(limit, 1)
	more := false
	var failed error
	add := func(s *subscriptionView) bool {
		var last []operator.Attempt
		if last, failed = a.abandonedAttempts(ctx, &s.WebhookInfo, since, until); failed != nil {
			return false
		}
		for _, m := range last {
			if s.ID == from.id && from.isPast(&m) {
				continue
			}
			if more = len(page) == limit; more {
				return false
			}
			page = append(page, operator.Abandoned{Subscription: s.ID, Principal: s.Principal, URL: s.URL, Attempt: m})
		}
		return true
	}
	err = l.addRest(from, add)
	if err == nil && failed == nil && !more {
		next, err = l.visitMatches(from.id, maxScan, add)
	}
	if err = cmp.Or(err, failed); err != nil {
		return nil, "", err
	}
	if more {
		last := &page[limit-1]
		next = abandonedCursor{last.Subscription, last.Attempt.Position, last.Attempt.EventID}.text()
	}
	return page, next, nil
}

// An abandonedCursor is a position in a list of abandoned occurrences, either after a subscription or after one of its
// occurrences.
type abandonedCursor struct {
	id       string
	position store.Position
	eventID  string
}

func (s abandonedCursor) text() string {
	return s.id + "/" + strconv.FormatUint(uint64(s.position), 10) + "/" + base64.RawURLEncoding.EncodeToString([]byte(s.eventID))
}

// parseAbandonedCursor parses an abandonedCursor or the id of a subscription.
func parseAbandonedCursor(text string) (s abandonedCursor, err error) {
	id, rest, within := strings.Cut(text, "/")
	s.id = id
	if !within {
		return s, nil
	}
	position, eventID, _ := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(position, 10, 63)
	name, decodeErr := base64.RawURLEncoding.DecodeString(eventID)
	if err != nil || decodeErr != nil || id == "" || len(name) == 0 {
		return s, events.Invalid(events.FieldError{Message: "after is not a page cursor of abandoned occurrences"})
	}
	s.position, s.eventID = store.Position(n), string(name)
	return s, nil
}

// isPast reports whether the cursor is at or after the occurrence of an attempt.
func (s abandonedCursor) isPast(m *operator.Attempt) bool {
	return s.eventID == "" || cmp.Or(cmp.Compare(m.Position, s.position), cmp.Compare(m.EventID, s.eventID)) <= 0
}

// addRest calls add for the subscription at which the previous page ended, provided that it still matches the filter.
func (l *query) addRest(from abandonedCursor, add func(s *subscriptionView) bool) error {
	if from.eventID == "" || l.a.o.Webhooks == nil {
		return nil
	}
	r, ok, err := l.a.readRecord(l.ctx, from.id)
	if err != nil || !ok {
		return err
	}
	s, ok, err := l.matchListed(&r)
	if ok && err == nil {
		add(&s)
	}
	return err
}

// abandonedAttempts returns the last attempts at occurrences that failed between two times and will not be retried. The
// oldest occurrence is first. If the subscription was created before since and has never failed, it does not read the
// attempts. Failed manual attempts do not count as failures of the subscription, so this shortcut omits occurrences
// that the endpoint accepted before a manual attempt failed.
func (a *Admin) abandonedAttempts(ctx context.Context, i *operator.WebhookInfo, since, until time.Time) (last []operator.Attempt, err error) {
	if i.State == operator.StateUnreadable || i.LastError == "" && i.CreatedAt.Before(since) {
		return nil, nil
	}
	made, err := a.storedAttempts(ctx, i.ID)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, m := range made {
		if seen[m.EventID] {
			continue
		}
		seen[m.EventID] = true
		if m.Category != "" && m.NextAt.IsZero() && !m.At.Before(since) && (until.IsZero() || m.At.Before(until)) {
			last = append(last, m)
		}
	}
	slices.SortFunc(last, func(a, b operator.Attempt) int {
		return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.EventID, b.EventID))
	})
	return last, nil
}
