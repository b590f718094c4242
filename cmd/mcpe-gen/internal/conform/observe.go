package conform

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// An oddity is what is wrong with a message whatever it was sent for.
type oddity int

const (
	withID     oddity = iota // a notification that has an id
	twice                    // a member that stands twice, or text that is no UTF-8
	otherID                  // a response with an id that is not its request's
	otherType                // a result whose resultType is not complete
	wordless                 // an error without a code that is an integer, or a message that is a text
	withSecret               // a secret or a token of the run
)

// observe looks at each message as it comes.
func (r *run) observe(f *flow, m message) {
	note := func(what oddity, is bool) {
		if !is {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.noted[what] == nil {
			r.noted[what] = &exchange{answer: m}
		}
	}
	note(withID, !m.isResponse() && m.id != nil)
	note(twice, !jsontext.Value(m.raw).IsValid())
	note(otherID, m.isResponse() && canonical(m.id) != canonical(f.id))
	resultType := member(m.result, "resultType")
	note(otherType, resultType != nil && string(resultType) != `"complete"`)
	if m.err != nil {
		refusal := objectOf(member(m.raw, "error"))
		var code int64
		var text *string
		note(wordless, json.Unmarshal(refusal["code"], &code) != nil || json.Unmarshal(refusal["message"], &text) != nil || text == nil)
	}
	note(withSecret, r.Holds(m.raw))
}

// observed checks that no message of the run was odd in a way.
func observed(what oddity, expected, got string) func(context.Context, *run) error {
	return func(_ context.Context, r *run) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if x := r.noted[what]; x != nil {
			return x.wrong(expected, "%s", got)
		}
		return nil
	}
}

// observedChecks look back on all messages of the run.
var observedChecks = []check{
	{id: "PUSH-2", title: "a notification has no id of JSON-RPC",
		run: observed(withID, "a notification, which has no id", "one with an id, which is a request")},
	{id: "CAP-6", title: "every member stands once, in UTF-8", run: observed(twice, "each member once, in UTF-8", "one twice, or bytes that are no text")},
	{id: "CAP-6", title: "every answer has the id of its request", run: observed(otherID, "the id of the request", "another one")},
	{id: "CAP-6", title: "every error has a code and a message", run: observed(wordless, "an integer as code and a string as message", "others")},
	{id: "D3", title: "resultType is complete on every method", run: observed(otherType, `resultType to be "complete"`, "another one")},
	{id: "ERR-5", title: "no answer has a secret or a token", run: observed(withSecret, "no secret", "one")},
	{id: "ERR-5", title: "no delivery has a secret or a token", needs: needHook, run: checkTelling},
	{id: "CAP-8", title: "standard output has messages only", needs: needStdio, run: checkStray},
	{id: "PUSH-4", title: "every heartbeat carries the cursor", needs: needPush, run: checkHeartbeats},
	{id: "VER-1", title: "nothing is delivered before a callback has answered its challenge", needs: needHook, run: checkUnverified},
}

func checkTelling(ctx context.Context, r *run) error {
	if err := r.awaitDelivery(ctx); err != nil {
		return err
	}
	for _, c := range r.receiver.all() {
		for _, p := range c.received() {
			texts := [][]byte{p.body}
			for _, values := range p.header {
				texts = append(texts, []byte(strings.Join(values, " ")))
			}
			for _, text := range texts {
				if r.Holds(text) {
					return p.exchange(r.main.made).wrong("no secret", "one")
				}
			}
		}
	}
	return nil
}

func checkStray(_ context.Context, r *run) error {
	l := r.link.(*stdioLink)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stray != "" {
		return r.hello.wrong("a message on each line", "%s", wire.Shown(l.stray))
	}
	return nil
}

// checkUnverified looks at every callback. Where no challenge came at all the server may know the host by other means.
func checkUnverified(ctx context.Context, r *run) error {
	if _, err := r.failing(ctx); err != nil {
		return err
	}
	r.passing(ctx, r.o.pace.arrive)
	pause(ctx, r.o.pace.quiet)
	for _, c := range r.receiver.all() {
		challenged, verified := false, false
		for _, p := range c.received() {
			switch {
			case isChallenge(p):
				challenged = true
				verified = verified || p.proved
			case isOccurrence(p) && !verified && (challenged || c.challengedLater()):
				return p.exchange(r.main.made).wrong("no delivery to a callback that has not answered its challenge", "%s", p.brief())
			}
		}
	}
	return nil
}
