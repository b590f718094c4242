package clients

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/hostileserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// hostileScenes send invalid responses from package hostileserver. A client may ignore some of them, and may report
// others and stop. A valid response follows each invalid one.
var hostileScenes = []scene{
	hostileScene("poll-malformed", wire.ModePoll, wire.MethodPoll, "CLI-3", "The client continues after malformed pages or reports them"),
	hostileScene("stream-malformed", wire.ModePush, wire.MethodStream, "CLI-4", "The client continues after malformed streams or reports them"),
	hostileScene("subscribe-malformed", wire.ModeWebhook, wire.MethodSubscribe, "CLI-5", "The client continues after malformed grants or reports them"),
	hostileScene("list-malformed", "", wire.MethodList, "CLI-1", "The client continues after malformed lists or reports them"),
}

// maxSpoiled is the number of responses that a scene makes invalid.
const maxSpoiled = 8

// maxReadTime is how long a client may take to read a response.
const maxReadTime = 500 * time.Millisecond

// hostileScene returns a scene with invalid responses to a method.
func hostileScene(name, mode, method, id, title string) scene {
	// Other scenes cover held connections and permanent refusals, and after an accepted request a client may wait.
	cases := slices.DeleteFunc(hostileserver.Cases(), func(c hostileserver.Case) bool {
		return c.Method != method || c.Hold || c.Status/100 == 4 || c.Status == http.StatusAccepted || c.Status == http.StatusNoContent || isLongWait(c)
	})
	most := min(maxSpoiled, len(cases))
	if method == wire.MethodList {
		most = 3 // the client pauses longer before each further list request
	}
	spread := make([]hostileserver.Case, 0, most)
	for i := range most {
		spread = append(spread, cases[i*len(cases)/most])
	}
	// Reply correctly to the first polls and subscriptions, and to some of the later ones, so the client continues. A
	// client does not repeat a list or a stream that succeeded.
	first, step, last := 2, 2, 1
	switch method {
	case wire.MethodList, wire.MethodStream:
		first, step = 1, 1
	case wire.MethodPoll:
		last = len(spread)
	}
	return scene{name: name, mode: mode, misbehavesEarly: method == wire.MethodList, maxDuration: 60 * time.Second, grant: 3 * time.Second, acceptsHostile: true,
		turn: func(s *stage, a *clientCall, n int) reply {
			i := n - first
			if a.method != method || i < 0 || i%step != 0 || i/step >= len(spread) {
				return nil
			}
			c := spread[i/step]
			if !a.legacy {
				// Add resultType, so that the answer is wrong in only one way.
				c.Message = strings.Replace(c.Message, `"result":{`, `"result":{"resultType":"complete",`, 1)
			}
			s.spoil(c.Name)
			return func(w http.ResponseWriter, r *http.Request) {
				h := &hostileserver.Server{Case: c, Delivery: s.mode}
				h.SetHostile(true)
				h.ServeHTTP(w, r)
			}
		},
		background: func(ctx context.Context, s *stage) {
			spoiled := s.waitUntil(ctx, func() bool {
				s.mu.Lock()
				n := len(s.spoiled)
				s.mu.Unlock()
				return n >= last && (method != wire.MethodSubscribe || len(s.eventRequests()) > first)
			})
			// Give the client time to read the spoiled answer: it may end because of it.
			if spoiled && sleep(ctx, maxReadTime) && s.waitUntil(ctx, s.isFollowing) {
				s.emit()
				s.finishWhenRead(ctx)
			}
		},
		checks: []check{{name: name, id: id, title: title, run: bearsOrReports}}}
}

// isLongWait reports whether a client that obeys the response, or waits for another one, waits longer than the scene
// lasts.
func isLongWait(c hostileserver.Case) bool {
	return slices.ContainsFunc([]string{"wait ", "unavailable for ", "id ", "a request", "a stream "}, func(prefix string) bool { return strings.HasPrefix(c.Name, prefix) })
}

// bearsOrReports checks that the client continues, or ends or prints something after the last invalid response. A
// violation has the name of that response.
func bearsOrReports(s *stage) error {
	err := expectContinuation(s)
	if err != nil && s.hasReported(s.spoiledAt) {
		return nil
	}
	if v, ok := errors.AsType[*verdict.Violation](err); ok && len(s.spoiled) > 0 {
		v.Got += "; the last answer that was spoiled: " + s.spoiled[len(s.spoiled)-1]
	}
	return err
}
