package behaviour

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/golden/coalesce/want"
	"github.com/mcpe-gen/mcpe-gen/golden/coalesce/want/coalesceclient"
	"github.com/mcpe-gen/mcpe-gen/golden/coalesce/want/coalesceserver"
	"github.com/mcpe-gen/mcpe-gen/golden/filters/want"
	"github.com/mcpe-gen/mcpe-gen/golden/filters/want/filtersclient"
	"github.com/mcpe-gen/mcpe-gen/golden/filters/want/filtersserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
)

// MATCH-1 and MATCH-2: rules that are turned around, have an order or lead through arrays, by generated code.
func TestFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		changed, err := filtersserver.RegisterIssueChanged(es, filtersserver.IssueChangedHooks{})
		if err != nil {
			t.Fatal(err)
		}
		c := eventstest.NewClient(t, es)
		since, err := events.ParseTime("2026-11-20T08:00:00Z")
		if err != nil {
			t.Fatal(err)
		}
		type subscription = eventstest.Subscription[filters.IssueChangedArguments, filters.IssueChangedPayload]
		subs := map[string]*subscription{}
		for name, args := range map[string]filters.IssueChangedArguments{
			"label":   {Label: new("bug")},
			"without": {WithoutLabels: []string{"wontfix", "bug"}},
			"lighter": {LighterThan: new(int64(3))},
			"since":   {ChangedSince: &since},
			"open":    {NotState: filters.IssueChangedArgumentsNotStateClosed},
			"both":    {Label: new("ui"), WithoutLabels: []string{"bug"}},
			"not me":  {NotBy: []string{"me", "bot"}},
		} {
			subs[name] = eventstest.Subscribe(t, c, filtersclient.SubscribeIssueChanged, args)
		}
		for _, emitted := range []struct {
			payload string
			matches []string
		}{
			{`{"state":"open"}`, []string{"without", "open", "not me"}},
			{`{"state":"closed","sender":{"login":"me"}}`, []string{"without"}},
			{`{"state":"closed","sender":{"login":"you"},"labels":[]}`, []string{"without", "not me"}},
			{`{"state":"closed","sender":{"login":"bot"},"labels":[{"name":"ui","weight":3},{"name":"bug","weight":2}]}`, []string{"label", "lighter"}},
			{`{"state":"closed","sender":{"login":"Me"},"labels":[{"name":"ui","weight":3}]}`, []string{"without", "both", "not me"}},
			{`{"state":"closed","sender":{"login":"me"},"at":"2026-11-20T09:00:00+01:00","labels":[{"name":"wontfix"}]}`, []string{"since"}},
			{`{"state":"closed","sender":{"login":"me"},"at":"2026-11-20T07:59:59Z","labels":[{"name":"wontfix"}]}`, nil},
		} {
			eventstest.Emit(t, changed, decode[filters.IssueChangedPayload](t, emitted.payload))
			for name, sub := range subs {
				if slices.Contains(emitted.matches, name) {
					sub.Next(time.Second)
				}
				sub.None(time.Second)
			}
		}
	})
}

// ACTOR-2: a client leaves out what it caused itself, in every mode that has no callback, and learns that an event type
// names no actor.
func TestNotByMe(t *testing.T) {
	for _, mode := range []string{"push", "poll"} {
		synctest.Test(t, func(t *testing.T) {
			es := eventstest.NewServer(t)
			made, err := filtersserver.RegisterPushMade(es, filtersserver.PushMadeHooks{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := coalesceserver.RegisterPullRequestUpdated(es, coalesceserver.PullRequestUpdatedHooks{}); err != nil {
				t.Fatal(err)
			}
			c := eventstest.NewClient(t, es)
			sub := eventstest.Subscribe(t, c, filtersclient.SubscribePushMade, filters.PushMadeArguments{}, client.WithMode(mode), client.NotBy("me"))
			for payload, arrives := range map[string]bool{
				`{"commits":[{"author":"you"},{"author":"me"}]}`:    false,
				`{"commits":[{"author":"you"},{"author":null},{}]}`: true,
				`{"commits":[]}`: true,
				`{}`:             true,
			} {
				eventstest.Emit(t, made, decode[filters.PushMadePayload](t, payload))
				if arrives {
					sub.Next(10 * time.Second)
				}
				sub.None(10 * time.Second)
			}
			var none *client.NoActorError
			_, err = coalesceclient.SubscribePullRequestUpdated(t.Context(), c.Client, coalesce.PullRequestUpdatedArguments{}, client.NotBy("me"))
			if !errors.As(err, &none) || none.Event != "pull_request.updated" {
				t.Errorf("an event type without an actor: %v", err)
			}
			if _, err = filtersclient.SubscribePushMade(t.Context(), c.Client, filters.PushMadeArguments{NotBy: []string{"you"}}, client.NotBy("me")); err == nil {
				t.Error("actors of the arguments and of the option were taken")
			}
		})
	}
}
