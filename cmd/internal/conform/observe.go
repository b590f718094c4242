package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An oddity is a kind of fault that any message can have.
type oddity int

const (
	withID      oddity = iota // a notification that has an id
	twice                     // a duplicate member, or invalid UTF-8
	otherID                   // a response with an id other than its request's
	otherType                 // a result whose resultType is not complete
	twoOutcomes               // a response with both a result and an error
	wordless                  // an error whose code is not an integer or whose message is not a string
	withSecret                // a secret or a token of the run
	withText                  // text that an endpoint of the run answered with
)

// ignoreEarlier discards the oddities so far and excludes the responses to all earlier requests. Before its handshake,
// a legacy server can send malformed responses. For example, the TypeScript SDK 1.x sends a null ID.
func (r *run) ignoreEarlier() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.oddities)
	r.ignoredID = r.ids
}

// observe records the oddities of a message.
func (r *run) observe(f *flow, m message) {
	n, err := strconv.Atoi(string(f.id))
	note := func(what oddity, is bool) {
		if !is {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.oddities[what] == nil && (err != nil || n > r.ignoredID) {
			r.oddities[what] = &exchange{answer: m}
		}
	}
	note(withID, !m.isResponse() && m.id != nil)
	note(twice, !jsontext.Value(m.raw).IsValid())
	note(otherID, m.isResponse() && canonicalJSON(m.id) != canonicalJSON(f.id) && isCommonID(f.id))
	resultType := member(m.result, "resultType")
	note(otherType, resultType != nil && string(resultType) != `"complete"`)
	members := objectOf(m.raw)
	note(twoOutcomes, members["result"] != nil && members["error"] != nil)
	if m.err != nil {
		refusal := objectOf(members["error"])
		var code int64
		var text *string
		note(wordless, json.Unmarshal(refusal["code"], &code) != nil || json.Unmarshal(refusal["message"], &text) != nil || text == nil)
	}
	note(withSecret, r.Holds(m.raw))
	note(withText, bytes.Contains(m.raw, []byte(marker)))
}

// isCommonID reports whether every implementation can parse a request ID. Such an ID is a string, or an integer that a
// float64 represents exactly (RFC 8259, section 6). A server responds with a null ID if it cannot parse the request's
// ID (JSON-RPC 2.0, section 5).
func isCommonID(id json.RawMessage) bool {
	n, err := strconv.ParseInt(string(id), 10, 64)
	return bytes.HasPrefix(id, []byte(`"`)) || err == nil && -1<<53 < n && n < 1<<53
}

// oddityCheck returns a check that no message of the run had the oddity.
func oddityCheck(what oddity, expected, got string) func(context.Context, *run) error {
	return func(_ context.Context, r *run) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if x := r.oddities[what]; x != nil {
			return x.violation(expected, "%s", got)
		}
		return nil
	}
}

// observedChecks examine all messages of the run.
var observedChecks = []check{
	{name: "notification-id", id: "PUSH-2", title: "A notification has no JSON-RPC id",
		run: oddityCheck(withID, "a notification, which has no id", "one with an id, which is a request")},
	{name: "message-members", id: "CAP-6", title: "Messages have unique members and are UTF-8", run: oddityCheck(twice, "each member once, in UTF-8", "a duplicate member, or invalid UTF-8")},
	{name: "response-id", id: "CAP-6", title: "Every response has the id of its request", run: oddityCheck(otherID, "the id of the request", "another one")},
	{name: "response-result", id: "CAP-6", title: "Every response has either a result or an error", // JSON-RPC 2.0, section 5
		run: oddityCheck(twoOutcomes, "a result or an error", "both members")},
	{name: "error-members", id: "CAP-6", title: "Every error has a code and a message", run: oddityCheck(wordless, "an integer as code and a string as message", "others")},
	{name: "result-type-methods", id: "D3", title: "resultType is complete for every method", run: oddityCheck(otherType, `resultType to be "complete"`, "another one")},
	{name: "response-secrets", id: "ERR-5", title: "Responses contain no secret and no token", run: oddityCheck(withSecret, "no secret", "one")},
	{name: "endpoint-text", id: "ERR-1", title: "Responses do not contain text from the response of a callback", needs: needHook | needRetrial, run: retried(checkRepeated)},
	{name: "deliveries-signed", id: "HOOK-2", title: "Every delivery is signed and has its headers", needs: needHook | needRetrial, run: retried(checkAllSigned)},
	{name: "challenge-once", id: "VER-2", title: "The server sends each challenge once", needs: needHook, run: checkChallenges},
	{name: "stream-active-again", id: "PUSH-7", title: "A stream sends active again only with truncated", needs: needPush | needOccurred, run: checkActiveAgain},
	{name: "stream-result", id: "PUSH-8", title: "A stream that the server ends has its result", needs: needPush, run: checkEndsWell},
	{name: "delivery-secrets", id: "ERR-5", title: "Deliveries contain no secret and no token", needs: needHook | needDelivered, run: checkTelling},
	{name: "notification-response", id: "CAP-6", title: "A notification has no response", needs: needHTTP, run: checkNotification},
	{name: "stdout", id: "CAP-8", title: "Standard output contains only messages", needs: needStdio, run: checkStray},
	{name: "heartbeat-cursor", id: "PUSH-4", title: "The server sends heartbeats, each with a cursor", needs: needPush, run: checkHeartbeats},
	{name: "challenge-before-delivery", id: "VER-1", title: "The server delivers nothing before a callback has responded to its challenge", needs: needHook, run: checkUnverified},
}

func checkTelling(_ context.Context, r *run) error {
	for _, c := range r.receiver.allCallbacks() {
		for _, p := range c.receivedPosts() {
			texts := [][]byte{p.body}
			for _, values := range p.header {
				texts = append(texts, []byte(strings.Join(values, " ")))
			}
			if slices.ContainsFunc(texts, r.Holds) {
				return p.exchange(r.mainSubscription.made).violation("no secret", "one")
			}
		}
	}
	return nil
}

// checkNotification sends notifications, among them one of a method that has a result.
func checkNotification(ctx context.Context, r *run) error {
	for _, method := range []string{"notifications/initialized", wire.MethodList, "notifications/" + noSuchEvent} {
		q := request{method: method}
		body := q.encode(r.revision)
		status, answer, err := r.link.(*httpLink).send(ctx, method, body)
		if err != nil {
			return err
		}
		if status/100 == 2 && len(bytes.TrimSpace(answer)) > 0 {
			return (&exchange{request: body, answer: message{raw: answer}}).violation("202 without a body", "%d with a body", status)
		}
	}
	return nil
}

func checkStray(_ context.Context, r *run) error {
	l := r.link.(*stdioLink)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stray != "" {
		return r.hello.violation("a message on each line", "%s", wire.Shown(l.stray))
	}
	return nil
}

// checkUnverified examines every callback. A server that sent no challenge may trust the host for other reasons.
func checkUnverified(ctx context.Context, r *run) error {
	r.awaitPushed(ctx, r.o.pace.maxLag)
	pause(ctx, r.o.pace.quiet)
	for _, c := range r.receiver.allCallbacks() {
		challenged, verified := false, false
		for _, p := range c.receivedPosts() {
			switch {
			case isChallenge(p):
				challenged = true
				verified = verified || p.isVerified
			case isOccurrence(p) && !verified && (challenged || c.hasChallenge()):
				return p.exchange(r.mainSubscription.made).violation("no delivery to a callback that has not answered its challenge", "%s", p.summary())
			}
		}
	}
	return nil
}

// checkRepeated refreshes the subscription of the retrial because its status may contain endpoint text.
func checkRepeated(ctx context.Context, r *run, t *retrial) error {
	if t.refreshed != "" {
		if _, err := r.subscribe(ctx, r.hook, t.callback, nil); err != nil {
			return err
		}
	}
	return oddityCheck(withText, "nothing of what an endpoint said", "its text")(ctx, r)
}

func checkAllSigned(_ context.Context, r *run, _ *retrial) error {
	for _, c := range r.receiver.allCallbacks() {
		c.mu.Lock()
		secrets := c.secrets
		c.mu.Unlock()
		for _, p := range c.receivedPosts() {
			if !isOccurrence(p) {
				continue
			}
			if id := p.header.Get(wire.HeaderSubscriptionID); id == "" || c == r.mainSubscription.callback && id != r.mainSubscription.id {
				return p.exchange(r.mainSubscription.made).violation("the header "+wire.HeaderSubscriptionID+" of the subscription", "%q", wire.Shown(id))
			}
			var err error
			for _, secret := range secrets {
				if err = p.verify(secret); err == nil {
					break
				}
			}
			if err != nil {
				return p.exchange(r.mainSubscription.made).violation("a signature of a secret of this callback, and the time of now", "%v", err)
			}
		}
	}
	return nil
}

// checkChallenges checks that the challenges of all callbacks differ.
func checkChallenges(_ context.Context, r *run) error {
	seen := map[string]bool{}
	for _, c := range r.receiver.allCallbacks() {
		c.mu.Lock()
		left := c.asked
		c.mu.Unlock()
		for _, p := range c.receivedPosts() {
			if !isChallenge(p) {
				continue
			}
			x := p.exchange(r.mainSubscription.made)
			if left--; left < 0 {
				return x.violation("no challenge but within events/subscribe", "another one")
			}
			for _, text := range []string{"challenge " + string(member(p.body, "challenge")), "webhook-id " + p.header.Get(wire.HeaderWebhookID)} {
				if seen[text] {
					return x.violation("a challenge and a webhook-id that were not used before", "the %s again", wire.Shown(text))
				}
				seen[text] = true
			}
		}
	}
	return nil
}

func checkActiveAgain(_ context.Context, r *run) error {
	if r.push.stream == nil {
		return skipf("the stream could not be watched")
	}
	for i, m := range mustMessages(r.push.stream) {
		if truncated := member(m.params, "truncated"); i > 0 && m.method == wire.NotificationActive && string(truncated) != "true" {
			return (&exchange{request: r.push.opened, answer: m}).violation("active once, or again with truncated", "truncated %s", orNone(truncated))
		}
	}
	return nil
}

// checkEndsWell examines the watched streams.
func checkEndsWell(ctx context.Context, r *run) error {
	r.awaitPushed(ctx, r.o.pace.maxLag)
	watched := 0
	for _, s := range r.typesWith(wire.ModePush) {
		if s.stream == nil {
			continue
		}
		watched++
		kept, ended, broken := s.stream.messages()
		if ended && broken == nil && len(kept) > 0 && !slices.ContainsFunc(kept, message.isResponse) {
			return (&exchange{request: s.opened, answer: kept[len(kept)-1]}).violation("the result of events/stream before its end", "none")
		}
	}
	if watched == 0 {
		return skipf("no stream could be watched")
	}
	return nil
}
