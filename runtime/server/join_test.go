package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// SRV-3, ERR-2: a stream that could not join takes nothing from another one of the same subscription
// that does: OnUnsubscribe is not called while that one lives. Server.open carries it.
func TestSRV3FailedJoinLeavesOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hooks := newServer(t, Options{}), &journal{}
		register(t, s, "e", Hooks[filterArgs, incident]{
			OnSubscribe: func(context.Context, Subscription, *filterArgs) error {
				time.Sleep(time.Minute)
				hooks.add("on")
				return nil
			},
			OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
		})
		opened := make(chan *streaming.Stream)
		go func() {
			st, rerr := openStream(s, "ann", `{"name":"e"}`)
			if rerr != nil {
				t.Error(rerr)
			}
			opened <- st
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.inside().Open(ctx, streamRequest("ann", `{"name":"e"}`)); err == nil {
			t.Error("a stream whose caller has gone is opened")
		}
		st := <-opened
		synctest.Wait()
		wantStrings(t, "hooks", hooks.lines(), "on")
		st.Close()
		wantStrings(t, "hooks", hooks.lines(), "on", "off")
	})
}

// An unreadableStore has logs that cannot be read.
type unreadableStore struct{ *memory.Store }

type unreadableLog struct{ store.EventLog }

func (s unreadableStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.Store.OpenLog(ctx, name, o)
	return unreadableLog{l}, err
}

func (unreadableLog) Read(context.Context, store.Position, int) (store.Batch, error) {
	return store.Batch{}, errors.New("the disk is gone")
}

// ERR-2, SRV-5: a stream of both sources that finds its start upstream and not in the log leaves no
// feed, whose calls nobody would end.
func TestSRV5FailedBothLeavesNoFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{Store: unreadableStore{memory.New()}})
		m := &mailbox{}
		e, err := RegisterBoth(s, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, WithNextPoll(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		c := pollFrom(t, s, nil, "").Cursor
		time.Sleep(time.Hour / 2)
		emit(t, e, incident{ID: "x1"})
		if _, rerr := openStream(s, "", `{"name":"e","cursor":"`+*c+`","maxAgeMs":1000}`); rerr == nil {
			t.Fatal("a log that cannot be read is read")
		}
		synctest.Wait()
		asked := len(m.questions())
		time.Sleep(time.Minute)
		if n := len(m.questions()); n != asked || e.et.feeds.Len() != 0 || len(s.streams.All()) != 0 {
			t.Errorf("%d checks after it, %d feeds, %d streams", n-asked, e.et.feeds.Len(), len(s.streams.All()))
		}
	})
}
