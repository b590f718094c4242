package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/hostileserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// hostileScenes answer what is no answer, from package hostileserver: what a client may pass over, and what it may stop
// for if it says so. Each spoiled answer is followed by one that is right.
var hostileScenes = []scene{
	hostile("odd pages", wire.ModePoll, wire.MethodPoll, true, "CLI-3", "odd pages that lose nothing are borne"),
	hostile("malformed pages", wire.ModePoll, wire.MethodPoll, false, "CLI-3", "malformed pages are survived, or reported"),
	hostile("odd streams", wire.ModePush, wire.MethodStream, true, "CLI-4", "odd streams that lose nothing are borne"),
	hostile("malformed streams", wire.ModePush, wire.MethodStream, false, "CLI-4", "malformed streams are survived, or reported"),
	hostile("odd subscriptions", wire.ModeWebhook, wire.MethodSubscribe, true, "CLI-5", "odd grants that lose nothing are borne"),
	hostile("malformed subscriptions", wire.ModeWebhook, wire.MethodSubscribe, false, "CLI-5", "malformed grants are survived, or reported"),
	hostile("malformed lists", "", wire.MethodList, false, "CLI-1", "malformed lists are survived, or reported"),
}

// maxSpoiled is how many answers of a scene are spoiled.
const maxSpoiled = 6

// takesTime is how long a client has to read an answer.
const takesTime = 500 * time.Millisecond

// hostile is a scene that spoils the answers to a method: harmless ones, or others.
func hostile(name, mode, method string, harmless bool, id, title string) scene {
	var cases []hostileserver.Case
	for _, c := range hostileserver.Cases() {
		// What holds a connection is tried by silence, and what is refused for good by Forbidden. For what was accepted a
		// client may wait.
		if c.Method == method && c.Harmless == harmless && !c.Hold && c.Status/100 != 4 && c.Status != http.StatusAccepted && c.Status != http.StatusNoContent && !longWait(c) {
			cases = append(cases, c)
		}
	}
	most := min(maxSpoiled, len(cases))
	if method == wire.MethodList {
		most = 3 // a client lists again after longer and longer pauses
	}
	spread := make([]hostileserver.Case, 0, most)
	for i := range most {
		spread = append(spread, cases[i*len(cases)/most])
	}
	// A poll or subscription is right at first and between, so that the client follows; a list or stream that is right is
	// not asked for again.
	first, step, last := 2, 2, "spoiled 0"
	switch method {
	case wire.MethodList, wire.MethodStream:
		first, step = 1, 1
	case wire.MethodPoll:
		last = fmt.Sprint("spoiled ", len(spread)-1)
	}
	sc := scene{name: name, mode: mode, early: method == wire.MethodList, within: 60 * time.Second, grant: 3 * time.Second, lax: true,
		turn: func(s *stage, a *ask, n int) reply {
			i := n - first
			if a.method != method || i < 0 || i%step != 0 || i/step >= len(spread) {
				return nil
			}
			c := spread[i/step]
			if harmless && !a.legacy {
				// Without it the answer would be odd in two ways.
				c.Message = strings.Replace(c.Message, `"result":{`, `"result":{"resultType":"complete",`, 1)
			}
			s.mu.Lock()
			s.spoiled = c.Name
			s.mu.Unlock()
			s.mark(fmt.Sprint("spoiled ", i/step))
			return func(w http.ResponseWriter, r *http.Request) {
				h := &hostileserver.Server{Case: c, Delivery: s.mode}
				h.SetHostile(true)
				h.ServeHTTP(w, r)
			}
		},
		live: func(ctx context.Context, s *stage) {
			// Deliveries go on whatever becomes of a refresh; one that was refused has to be made again.
			again := func() bool { return method != wire.MethodSubscribe || harmless || len(s.own()) > first }
			spoiled := s.until(ctx, func() bool { _, ok := s.when(last); return ok && again() })
			// The client first takes the answer that was spoiled: it may end at it.
			if spoiled && sleep(ctx, takesTime) && s.until(ctx, s.following) {
				s.emit()
				s.endWith(ctx)
			}
		}}
	if harmless {
		sc.checks = []check{{id: id, title: title, run: named(goesOn)}}
	} else {
		sc.checks = []check{{id: id, title: title, run: named(bearsOrReports)}}
	}
	return sc
}

// longWait reports whether a client that does as it is told is not seen again in time.
func longWait(c hostileserver.Case) bool {
	return strings.HasPrefix(c.Name, "wait ") || strings.HasPrefix(c.Name, "unavailable for ")
}

// named adds which answer was the last that was spoiled.
func named(judge func(s *stage) error) func(s *stage) error {
	return func(s *stage) error {
		err := judge(s)
		if v, ok := errors.AsType[*verdict.Violation](err); ok && s.spoiled != "" {
			v.Got += "; the last answer that was spoiled: " + s.spoiled
		}
		return err
	}
}

func bearsOrReports(s *stage) error {
	err := goesOn(s)
	var last time.Duration
	for i := range maxSpoiled {
		if at, ok := s.when(fmt.Sprint("spoiled ", i)); ok {
			last = at
		}
	}
	if err != nil && s.spoke(last) {
		return nil
	}
	return err
}
