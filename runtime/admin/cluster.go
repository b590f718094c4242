package admin

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A clusterBody is the API's JSON form of an operator.Cluster.
type clusterBody struct {
	operator.Cluster
	OutboxAgeMs *float64 `json:"outboxAgeMs,omitempty"`
	// Problems contains human-readable descriptions of problems.
	Problems []string `json:"problems"`
}

const (
	// maxUnheard is how long requests from other processes can remain unread before the delay is reported as a problem.
	// maxWaits is the same limit for an occurrence in the outbox.
	maxUnheard = 10 * time.Second
	maxWaits   = time.Minute
)

func clusterOf(c operator.Cluster, now time.Time) clusterBody {
	b := clusterBody{Cluster: c, Problems: []string{}}
	wrong := func(format string, args ...any) { b.Problems = append(b.Problems, fmt.Sprintf(format, args...)) }
	if !c.Leased {
		wrong("This process has no lease and does no shared work.")
	}
	if unheard := now.Sub(c.HeardAt); c.HeardAt.IsZero() || unheard > maxUnheard {
		wrong("This process cannot read the changes of other processes: revocations take effect late, and deliveries wait.")
	}
	for _, work := range slices.Sorted(maps.Keys(c.Unowned)) {
		wrong("Unowned shards of %s: %d.", work, c.Unowned[work])
	}
	b.Problems = append(b.Problems, c.Missing...)
	for _, s := range c.Conflicts {
		wrong("Processes serve incompatible schemas of %s (%s): %s the older, %s the newer. Restart the older processes with the newer build.", s.Event, s.Change,
			strings.Join(s.Older, ", "), strings.Join(s.Newer, ", "))
	}
	if c.OutboxAge != nil {
		ms := milliseconds(*c.OutboxAge)
		b.OutboxAgeMs = &ms
		if *c.OutboxAge > maxWaits {
			wrong("Events from transactions are waiting in the outbox: appending to a log or reading the outbox fails.")
		}
	}
	return b
}

// clusterState returns the state of all processes that share the store.
func (h *handler) clusterState(r *http.Request, actor string) (b clusterBody, err error) {
	if err := h.allow(r, actor, Action{Verb: ShowCluster}); err != nil {
		return b, err
	}
	c, err := h.admin.Cluster(r.Context())
	return clusterOf(c, time.Now()), err
}

// overviewCluster returns the state of the cluster for the overview. It returns nil if the server is not in a cluster
// or the actor may not see the cluster.
func (h *handler) overviewCluster(r *http.Request, actor string) (*clusterBody, error) {
	if h.authorize(r, actor, Action{Verb: ShowCluster}) != nil {
		return nil, nil
	}
	c, err := h.admin.Cluster(r.Context())
	if errors.Is(err, events.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := clusterOf(c, time.Now())
	return &b, nil
}

func (h *handler) clusterPages(add adder) {
	add("GET", "/api/cluster", reading(h, "the cluster", h.clusterState, answerOK))
	add("GET", "/cluster", reading(h, "the cluster", h.clusterState, func(w http.ResponseWriter, r *http.Request, _ string, b clusterBody) {
		h.render(w, r, http.StatusOK, "cluster.html", view{Title: "Cluster", Cluster: &b})
	}))
}
