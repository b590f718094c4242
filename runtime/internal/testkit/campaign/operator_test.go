package campaign

import (
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Each sentence of docs/operating.md about a verb has a case in which it holds and one in which it does not.
func TestJudgementOfOperations(t *testing.T) {
	at := time.Now().Truncate(time.Second)
	l := newLedger()
	l.begin(ticket{ID: "1", Opened: events.NewTime(at.Add(-2 * time.Second))}, false)
	l.acknowledged("1")
	made := func(event string, after time.Duration, accepted bool) attempt {
		return attempt{receiver: "/r", event: event, begin: at.Add(after), end: at.Add(after), signed: at.Add(after).Truncate(time.Second), accepted: accepted}
	}
	earlier, later, refused := made("1", -time.Second, true), made("1", time.Second, true), made("1", time.Second, false)
	for name, c := range map[string]struct {
		operation           operation
		attempts, envelopes []attempt
		want                string
	}{
		"paused":                     {operation: operation{verb: paused, done: at.Add(time.Minute)}, attempts: []attempt{earlier}},
		"paused, applied within 2 s": {operation: operation{verb: paused, done: at.Add(time.Minute)}, attempts: []attempt{made("1", 2*time.Second, true)}},
		"unpaused":                   {operation: operation{verb: paused, done: at.Add(time.Minute)}, attempts: []attempt{made("1", time.Hour, true)}},
		"not paused": {operation: operation{verb: paused, done: at.Add(time.Minute)}, attempts: []attempt{made("1", 3*time.Second, false)},
			want: "pause holds deliveries: 1 was attempted"},
		"replayed":            {operation: operation{verb: replayed, since: at.Add(-time.Minute)}, attempts: []attempt{earlier, refused}},
		"before the replay":   {operation: operation{verb: replayed, since: at.Add(-2 * time.Second)}, attempts: []attempt{earlier}},
		"not replayed":        {operation: operation{verb: replayed, since: at.Add(-time.Minute)}, attempts: []attempt{earlier}, want: "1 did not come again"},
		"sent again":          {operation: operation{verb: sent, event: "1"}, attempts: []attempt{earlier, refused}},
		"not sent again":      {operation: operation{verb: sent, event: "1"}, attempts: []attempt{earlier, made("2", time.Second, true)}, want: "1 did not come again"},
		"a gap":               {operation: operation{verb: gapped}, envelopes: []attempt{made(wire.EnvelopeGap, time.Second, true)}},
		"an earlier gap":      {operation: operation{verb: gapped}, envelopes: []attempt{made(wire.EnvelopeGap, -time.Second, true)}, want: "gets a gap"},
		"ended":               {operation: operation{verb: ended}, envelopes: []attempt{made(wire.EnvelopeTerminated, time.Second, true)}},
		"ended in a fault":    {operation: operation{verb: ended, fault: true}},
		"ended, not notified": {operation: operation{verb: ended}, envelopes: []attempt{made(wire.EnvelopeGap, time.Second, true)}, want: "end notifies the endpoint"},
		"all arrived":         {operation: operation{verb: kept, done: at.Add(time.Minute)}},
		"opened before":       {operation: operation{verb: kept, done: at.Add(time.Minute)}, attempts: []attempt{refused}},
		"one was lost meanwhile": {operation: operation{verb: kept, asked: at.Add(-time.Minute), done: at}, attempts: []attempt{refused},
			want: "1 did not arrive"},
		"one was delivered late": {operation: operation{verb: kept, asked: at.Add(-time.Minute), done: at}, attempts: []attempt{refused, later}},
	} {
		t.Run(name, func(t *testing.T) {
			o := &c.operation
			if o.asked.IsZero() {
				o.asked = at
			}
			if err := o.check(c.attempts, c.envelopes, l); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// An operator's replay or send explains that an accepted delivery is repeated, and it keeps its webhook-id.
func TestJudgementOfRepeats(t *testing.T) {
	at := time.Now()
	for name, c := range map[string]struct {
		operation operation
		id        string
		want      string
	}{
		"a replay":                {operation: operation{verb: replayed, receiver: "/r"}},
		"a replay elsewhere":      {operation: operation{verb: replayed, receiver: "/other"}, want: "without a fault"},
		"a replay that had ended": {operation: operation{verb: replayed, receiver: "/r", done: at.Add(-storeTime)}, want: "without a fault"},
		"a later replay":          {operation: operation{verb: replayed, receiver: "/r", asked: at.Add(time.Hour)}, want: "without a fault"},
		"a send":                  {operation: operation{verb: sent, receiver: "/r", event: "1"}},
		"a send of another event": {operation: operation{verb: sent, receiver: "/r", event: "2"}, want: "without a fault"},
		"a gap":                   {operation: operation{verb: gapped, receiver: "/r"}, want: "without a fault"},
		"another webhook-id":      {operation: operation{verb: sent, receiver: "/r", event: "1"}, id: "other", want: "keep their webhook-ids"},
	} {
		t.Run(name, func(t *testing.T) {
			cam := &Campaign{reception: &reception{operations: []operation{c.operation}, attempts: []attempt{
				{receiver: "/r", event: "1", begin: at, end: at, accepted: true},
				{receiver: "/r", event: "1", begin: at.Add(time.Minute), end: at.Add(time.Minute), accepted: true, id: c.id},
			}}}
			cam.judgeAttempts(&Report{})
			if got := len(cam.failures) > 0; got != (c.want != "") || got && !strings.Contains(cam.failures[0].Error(), c.want) {
				t.Errorf("%v, want %q", cam.failures, c.want)
			}
		})
	}
}
