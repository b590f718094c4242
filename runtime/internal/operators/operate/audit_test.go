package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// audited are the keys of entries, in order.
func audited(all []operator.AuditEntry) string {
	var keys []string
	for _, e := range all {
		keys = append(keys, e.Key)
	}
	return strings.Join(keys, " ")
}

// SRV-8: the latest first, by filter, in pages.
func TestSRV8Audit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		b := newBed(t, setup{store: st})
		ctx := t.Context()
		if all, next, err := b.Audit(ctx, operator.AuditFilter{}, 0, 10); err != nil || len(all) != 0 || next != 0 {
			t.Errorf("at first: %+v %d %v", all, next, err)
		}
		began := time.Now()
		for i, e := range []operator.AuditEntry{{Actor: "olga", Verb: "pause", Subscription: "s1", Principal: "ann", Event: "e"}, {Actor: "ivan", Verb: "send", Subscription: "s1", EventID: "evt"},
			{Actor: "olga", Verb: "send", Subscription: "s2"}, {Actor: "olga", Verb: "pause", Outcome: strings.Repeat("ö", operate.MaxAuditText)}} {
			e.Key, e.At = fmt.Sprint(i+1), began.Add(time.Duration(i)*2*time.Hour)
			must(t, b.Note(ctx, e))
		}
		// Somebody else's entry is passed over.
		log, err := st.OpenLog(ctx, engine.AuditLog, store.LogOptions{})
		must(t, err)
		_, err = log.Append(ctx, store.Entry{EventID: "x", Timestamp: events.NewTime(began), Data: json.RawMessage(`7`)})
		must(t, err)
		for _, c := range []struct {
			f    operator.AuditFilter
			want string
		}{{operator.AuditFilter{}, "4 3 2 1"}, {operator.AuditFilter{Actor: "olga"}, "4 3 1"}, {operator.AuditFilter{Actor: "olga", Verb: "pause"}, "4 1"},
			{operator.AuditFilter{Subscription: "s1"}, "2 1"}, {operator.AuditFilter{Principal: "ann"}, "1"}, {operator.AuditFilter{Event: "e"}, "1"},
			{operator.AuditFilter{EventID: "evt"}, "2"}, {operator.AuditFilter{Subscription: "s2"}, "3"}, {operator.AuditFilter{Actor: "ol"}, ""},
			{operator.AuditFilter{Since: began.Add(2 * time.Hour)}, "4 3 2"}, {operator.AuditFilter{Since: began.Add(time.Minute)}, "4 3 2"}} {
			all, next, err := b.Audit(ctx, c.f, 0, 100)
			if audited(all) != c.want || next != 0 || err != nil {
				t.Errorf("%+v: %q %d %v, want %q", c.f, audited(all), next, err, c.want)
			}
			// One at a time it is the same.
			var single []operator.AuditEntry
			for before := store.Position(0); ; {
				some, next, err := b.Audit(ctx, c.f, before, 1)
				if err != nil || len(some) > 1 {
					t.Fatalf("%+v: %+v %v", c.f, some, err)
				}
				single = append(single, some...)
				if before = next; next == 0 {
					break
				}
			}
			if audited(single) != c.want {
				t.Errorf("%+v, one at a time: %q, want %q", c.f, audited(single), c.want)
			}
		}
		all, _, err := b.Audit(ctx, operator.AuditFilter{}, 0, 1)
		if err != nil || all[0].Outcome != strings.Repeat("ö", operate.MaxAuditText/2) || !all[0].At.Equal(began.Add(6*time.Hour)) || all[0].Position != 4 {
			t.Errorf("%+v %v", all, err)
		}
	})
}

// One call looks at so many entries, whatever it finds.
func TestSRV8AuditLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, setup{})
		must(t, b.Note(t.Context(), operator.AuditEntry{Actor: "olga", Key: "1"}))
		for range operate.MaxAuditScan + 100 {
			must(t, b.Note(t.Context(), operator.AuditEntry{Actor: "ivan"}))
		}
		f := operator.AuditFilter{Actor: "olga"}
		all, next, err := b.Audit(t.Context(), f, 0, 1)
		if len(all) != 0 || next == 0 || err != nil {
			t.Fatalf("%+v %d %v", all, next, err)
		}
		if all, next, err = b.Audit(t.Context(), f, next, 1); audited(all) != "1" || next != 0 || err != nil {
			t.Errorf("%+v %d %v", all, next, err)
		}
	})
}

// A noFile is a store whose logs cannot be opened.
type noFile struct{ store.Store }

func (noFile) OpenLog(context.Context, string, store.LogOptions) (store.EventLog, error) {
	return nil, errNoFile
}

var errNoFile = errors.New("no file")

// A store that fails is an error of both.
func TestSRV8AuditStoreFails(t *testing.T) {
	a := operate.New(operate.Options{Store: noFile{memory.New()}})
	if err := a.Note(t.Context(), operator.AuditEntry{}); !errors.Is(err, errNoFile) {
		t.Error(err)
	}
	if _, _, err := a.Audit(t.Context(), operator.AuditFilter{}, 0, 1); !errors.Is(err, errNoFile) {
		t.Error(err)
	}
}
