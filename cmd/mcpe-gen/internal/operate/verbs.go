package operate

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// A Verb is a verb of admin: its command line, its request and its output.
type Verb struct {
	// Use contains the name and the arguments. Short describes the verb. Flags are the names of its flags.
	Use, Short string
	Flags      []string

	method string                                       // GET if empty
	path   string                                       // of the request; %s is replaced with an argument
	body   func(args []string) any                      // of the request
	query  string                                       // the query parameter for the first argument, for which a search must find something
	final  string                                       // the effect of a verb that cannot be undone; %s stands for the first argument
	many   *many                                        // how the verb applies to many subscriptions
	run    func(*Options, context.Context, *Verb) error // replaces the request

	list    string                    // the member with the list in the answer
	columns []string                  // of the list
	head    string                    // the member to print before the list
	sum     []string                  // members of the answer itself to print before the list
	row     func(row map[string]any)  // sets the columns of an element of the list
	page    func(page map[string]any) // adds the list to an answer without one
	// print replaces printing the list.
	print func(o *Options, ctx context.Context, v *Verb, page map[string]any, rows []map[string]any) error
}

// Groups of flags.
var (
	ofSubscriptions = []string{"principal", "event", "state", "url", "host", "late", "min-behind", "failing"}
	ofMany          = slices.Concat([]string{"all", "dry-run", "rate", "after", "yes"}, ofSubscriptions)
	ofManyRequests  = slices.Concat(ofMany, []string{"wait"})
)

// Verbs contains all verbs.
var Verbs = []Verb{
	{Use: "types URL", Short: "List the event types", path: "types", list: "types", row: setTermination,
		columns: []string{"name", "head", "perMinute", "behind", "streams", "pollers", "webhooks", "terminated", "description"}},
	{Use: "subscriptions URL", Short: "List webhook subscriptions", Flags: ofSubscriptions, path: "subscriptions", list: "subscriptions", row: dropOldError,
		columns: []string{"id", "principal", "event", "state", "behind", "failedSince", "lastError", "url"}},
	{Use: "endpoints URL", Short: "List totals for each host, or for each URL of one --host", Flags: ofSubscriptions, path: "endpoints", list: "endpoints", row: setEndpoint,
		columns: []string{"total", "suspended", "paused", "failing", "abandoned", "failedSince", "behind", "waitingSince", "endpoint"}},
	{Use: "show URL ID", Short: "Show a subscription", path: "subscriptions/%s"},
	{Use: "attempts URL ID", Short: "List the delivery attempts of a subscription", path: "subscriptions/%s/attempts", list: "attempts", row: setResult,
		columns: []string{"at", "number", "tookMs", "result", "nextAt", "eventId"}},
	{Use: "connections URL", Short: "List open streams and pollers", Flags: []string{"principal", "event", "mode"}, path: "connections", list: "connections",
		columns: []string{"id", "mode", "since", "behind", "event", "principal"}},
	{Use: "tail URL", Short: "Show occurrences as they happen", Flags: []string{"event"}, path: "tail", run: (*Options).tail},
	{Use: "events URL", Short: "List the events between two times, and the results of their deliveries", Flags: []string{"event", "since", "until"},
		path: "events", list: "occurrences", row: dropUnknownOutcomes, print: (*Options).printWindow,
		columns: []string{"timestamp", "event", "accepted", "waiting", "failed", "lastError", "eventId"}},
	{Use: "latency URL", Short: "List the latencies of endpoints and event types, slowest first", Flags: ofSubscriptions,
		path: "latency", list: "rows", page: mergeLatencies, print: (*Options).printLatencies,
		columns: []string{"of", "p95Ms", "p50Ms", "timed", "attempts", "failures", "name"}},
	{Use: "why URL ID", Short: "Explain why a subscription is late, and which command helps", path: "subscriptions/%s/why", print: (*Options).printWhy},
	{Use: "event URL EVENT-ID", Short: "Find an event by its id, and show its deliveries", Flags: []string{"event"},
		path: "occurrences", query: "eventId", list: "occurrences", print: (*Options).printFound,
		columns: []string{"event", "position", "timestamp", "bytes", "eventId"}},
	occurrence,
	{Use: "test URL ID PAYLOAD", Short: "Send a test event with this JSON to one subscription", path: "subscriptions/%s/test", method: "POST",
		body: func(args []string) any { return map[string]any{"data": json.RawMessage(args[1])} }},
	{Use: "retry URL [ID EVENT-ID]", Short: "Resend an event, or all events that were abandoned since a time", Flags: slices.Concat(ofManyRequests, []string{"since", "until"}),
		path: "subscriptions/%s/send", method: "POST", body: func(args []string) any { return map[string]string{"eventId": args[1]} },
		many: &many{question: "resend %d events"}},
	{Use: "pause URL [ID]", Short: "Pause deliveries", Flags: ofMany, path: "subscriptions/%s/pause", method: "POST",
		many: &many{question: "pause %d subscriptions", isNeeded: func(s *listedSubscription) bool { return s.State != "paused" && s.Unreadable == "" }}},
	{Use: "unpause URL [ID]", Short: "Continue paused deliveries", Flags: ofMany, path: "subscriptions/%s/unpause", method: "POST",
		many: &many{question: "unpause %d subscriptions", state: "paused", isNeeded: func(s *listedSubscription) bool { return s.State == "paused" && s.Unreadable == "" }}},
	{Use: "resume URL [ID]", Short: "End a suspension; an endpoint that keeps failing is suspended again", Flags: ofManyRequests, path: "subscriptions/%s/resume", method: "POST",
		many: &many{question: "resume %d subscriptions", state: "suspended", isNeeded: func(s *listedSubscription) bool { return s.State == "suspended" }}},
	{Use: "replay URL [ID [CURSOR]]", Short: "Redeliver the events after a cursor, or from --since, --position or --event-id",
		Flags: slices.Concat(ofManyRequests, []string{"since", "until", "position", "event-id"}),
		path:  "subscriptions/%s/replay", method: "POST", body: func(args []string) any { return map[string]string{"cursor": args[1]} },
		many: &many{question: "replay %d subscriptions", isNeeded: func(s *listedSubscription) bool { return s.State != "unreadable" }}},
	{Use: "endreplay URL [ID]", Short: "End a running replay", Flags: ofManyRequests, path: "subscriptions/%s/endreplay", method: "POST",
		many: &many{question: "end up to %d replays", isNeeded: func(s *listedSubscription) bool { return s.State != "unreadable" && s.Replay != nil }}},
	{Use: "audit URL", Short: "List who did what, newest first", Flags: []string{"since", "actor", "subscription", "principal", "event"}, path: "audit", list: "entries", row: setTarget,
		columns: []string{"at", "actor", "verb", "status", "outcome", "asked", "target"}},
	{Use: "cluster URL", Short: "List the processes that share the store, and their problems", path: "cluster", list: "replicas",
		columns: []string{"name", "this", "shards"}, sum: []string{"leased", "generation", "heardAt", "outboxAgeMs", "unowned", "problems"}},
	{Use: "end URL ID", Short: "End a subscription; its client may subscribe again unless server.Options.Authorize rejects it", Flags: []string{"wait", "yes"},
		path: "subscriptions/%s/end", method: "POST", final: "end the subscription %s, whose client may subscribe again unless server.Options.Authorize rejects it"},
	{Use: "disconnect URL ID", Short: "End a stream, or the lease of a poller; its client may connect again", path: "connections/%s/disconnect", method: "POST"},
	{Use: "revoke URL PRINCIPAL", Short: "End all that a principal has; it may subscribe again unless server.Options.Authorize rejects it", Flags: []string{"yes"},
		path: "revoke", method: "POST", body: func(args []string) any { return map[string]string{"principal": args[0]} },
		final: "end all subscriptions of %s, who may subscribe again unless server.Options.Authorize rejects it"},
	{Use: "reopen URL TYPE", Short: "End the termination of an event type", path: "types/%s/reopen", method: "POST"},
	{Use: "outbox URL", Short: "List rejected events, which are invalid events from transactions", path: "outbox", list: "rejected",
		columns: []string{"id", "at", "log", "eventId", "bytes", "reason"}},
	{Use: "putback URL ID", Short: "Return a rejected event to the outbox", path: "outbox/%s/putback", method: "POST"},
	{Use: "drop URL ID", Short: "Delete a rejected event", Flags: []string{"yes"}, path: "outbox/%s/drop", method: "POST", final: "delete the rejected event %s"},
}

// occurrence is a verb that shows an occurrence. The verb event shows its result if an event is in one place only.
var occurrence = Verb{Use: "occurrence URL TYPE POSITION", Short: "Show an occurrence, and its delivery to each subscription",
	path: "types/%s/occurrences/%s", list: "deliveries", head: "occurrence", row: setLastAttempt,
	columns: []string{"outcome", "subscription", "principal", "state", "at", "result", "url"}}

// Find returns the verb with a name, or nil.
func Find(name string) *Verb {
	for i := range Verbs {
		if Verbs[i].name() == name {
			return &Verbs[i]
		}
	}
	return nil
}

func (v *Verb) name() string {
	name, _, _ := strings.Cut(v.Use, " ")
	return name
}

// args returns the names of all arguments after the URL.
func (v *Verb) args() []string {
	return strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(v.Use))[2:]
}

// accepts reports whether the verb has the flag for a query parameter.
func (v *Verb) accepts(parameter string) bool {
	return slices.ContainsFunc(v.Flags, func(flag string) bool { return Parameter(flag) == parameter })
}

// Parameter returns the name that the API uses for a flag, such as minBehind for min-behind.
func Parameter(flag string) string { return parameters.Replace(flag) }

var parameters = strings.NewReplacer("min-behind", "minBehind", "event-id", "eventId")
