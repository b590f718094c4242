package operate

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// slowAnswer is the 95th percentile of response times from which an endpoint is considered slow.
const slowAnswer = time.Second

// delayFacts contains the data from which the reason for a delay is determined.
type delayFacts struct {
	subscriptionView
	status store.Report // zero if it is missing
	made   []operator.Attempt
}

func (a *Admin) Why(ctx context.Context, id string) (operator.Delay, error) {
	s, err := a.findWebhook(ctx, id)
	if err != nil {
		return operator.Delay{}, err
	}
	c := delayFacts{subscriptionView: s}
	if s.Missing == "" && s.State == operator.StateActive { // pausing writes no report
		c.status = s.report
	}
	if c.made, err = a.storedAttempts(ctx, id); err != nil {
		return operator.Delay{}, err
	}
	d := c.explainDelay()
	switch n := s.Abandoned; n {
	case 0:
	case 1:
		d.Text = "1 event given up in the last hour. " + d.Text
	default:
		d.Text = fmt.Sprintf("%d events given up in the last hour. %s", n, d.Text)
	}
	if c.isWaiting() && d.Reason != "unreadable" {
		if n := c.Behind; n != nil && *n > 0 {
			d.Text += fmt.Sprintf(" Up to %s waiting, the oldest since %s.", entries(*n), formatUTC(c.WaitingSince))
		}
		a.addLoss(&d, &c)
	}
	return d, nil
}

// isWaiting reports whether an occurrence is known to be waiting.
func (c *delayFacts) isWaiting() bool {
	return c.Behind != nil && *c.Behind > 0 || !c.status.LostAt.IsZero() || !c.status.NextAt.IsZero() || c.nextRetry() != nil
}

// nextRetry returns the latest attempt at the occurrence that will be retried next, or nil if no retry is scheduled.
func (c *delayFacts) nextRetry() (next *operator.Attempt) {
	for i := range c.made {
		if m := &c.made[i]; !m.NextAt.IsZero() && (next == nil || m.NextAt.Before(next.NextAt)) {
			next = m
		}
	}
	return next
}

// explainDelay returns the reason for the delay. It does not set LostAt.
func (c *delayFacts) explainDelay() (d operator.Delay) {
	d.NextAt = c.status.NextAt
	switch retry := c.nextRetry(); {
	case c.State == operator.StateUnreadable:
		d.Reason, d.Text = "unreadable", "Its record cannot be read: "+c.Unreadable+". Nobody delivers to it until a server can read the record."
	case c.State == operator.StatePaused:
		d.Reason, d.Since, d.Help = "paused", c.record.PausedAt, "unpause"
		d.Text = "An operator paused it at " + formatUTC(d.Since) + "."
	case c.State == operator.StateSuspended:
		d.Reason, d.Since, d.Help = "suspended", c.FailedSince, "resume"
		d.Text = fmt.Sprintf("It is suspended: %s. Nothing is sent until its subscriber refreshes it or an operator resumes it.", c.describeFailures())
	case retry != nil && !c.FailedSince.IsZero():
		d.Reason, d.Since, d.Help, d.EventID = "retrying", c.FailedSince, "send", retry.EventID
		if d.NextAt.IsZero() {
			d.NextAt = retry.NextAt
		}
		d.Text = fmt.Sprintf("It is in retry: %s. The next attempt is due at %s.", c.describeFailures(), formatUTC(d.NextAt))
	case c.Replay != nil:
		d.Reason, d.Help = "replaying", "endreplay"
		d.Text = fmt.Sprintf("A replay that %s started is under way: %s left.", c.Replay.AskedBy, entries(c.Replay.Left))
	case c.Missing != "":
		d.Reason, d.Text = "unreported", c.Missing+" How much waits is not known."
	case !c.isWaiting():
		d.Text = "No event is waiting."
		if !c.FailedSince.IsZero() {
			d.Text += " But " + c.describeFailures() + ". An abandoned event is sent again only by an operator."
		}
	case c.Throttled && !d.NextAt.IsZero():
		d.Reason, d.Text = "limited", "A rate limit, or a Retry-After of the endpoint, holds it back until "+formatUTC(d.NextAt)+"."
	case c.status.Held == store.HeldQueued && c.status.Sending == 0:
		d.Reason = "queued"
		d.Text = fmt.Sprintf("It waits for its turn: other subscriptions use the connections that %s or its principal may have.", operator.HostOf(c.URL))
	default:
		d.Reason, d.Text = c.describeBacklog()
	}
	return d
}

// describeFailures returns a sentence about when attempts started to fail, and how and when the last attempt failed. A
// second sentence may say what that means. The last one has no full stop.
func (c *delayFacts) describeFailures() string {
	text := "attempts have failed"
	if !c.FailedSince.IsZero() {
		text += " since " + formatUTC(c.FailedSince)
	}
	if c.LastError != "" {
		proxy := c.LastError == string(wire.Proxy)
		if text += ", the last one with " + operator.FailureText(c.LastError, c.LastStatus); proxy {
			text += " (the server's own proxy, not the endpoint)"
		}
		if !c.LastErrorAt.IsZero() {
			text += " at " + formatUTC(c.LastErrorAt)
		}
		if meaning := explainStatus(c.LastStatus); meaning != "" && !proxy {
			text += ". " + meaning
		}
	}
	return text
}

// explainStatus returns a sentence about the meaning of an endpoint's HTTP status, or "" for other statuses.
func explainStatus(status int) string {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return "Its endpoint refuses our signature or credentials: its secret may have changed"
	case status == http.StatusNotFound, status == http.StatusGone:
		return "The address is gone"
	case status == http.StatusRequestEntityTooLarge:
		return "The event is too large for its endpoint"
	case status == http.StatusTooManyRequests:
		return "Its endpoint limits the rate"
	case status >= 500:
		return "The receiver fails"
	}
	return ""
}

// describeBacklog returns the reason for a delay while deliveries are in progress.
func (c *delayFacts) describeBacklog() (reason, text string) {
	var t tally
	for i := range c.made {
		t.add(&c.made[i])
	}
	if l := t.latencyRow(); l.P95 >= slowAnswer {
		return "slow", fmt.Sprintf("Its endpoint is slow: 95 %% of its last %d answers took up to %s. %s under way.", l.Timed, plain.Duration(l.P95.Round(10*time.Millisecond)), inFlight(c.status.Sending))
	}
	return "backlog", "Its deliveries are under way: " + strings.ToLower(inFlight(c.status.Sending)) + " being made now."
}

func inFlight(n int) string {
	if n == 1 {
		return "1 attempt is"
	}
	return fmt.Sprintf("%d attempts are", n)
}

// addLoss adds the time at which the next occurrence will be lost.
func (a *Admin) addLoss(d *operator.Delay, c *delayFacts) {
	why := ""
	at := func(t time.Time, text string) {
		if !t.IsZero() && (d.LostAt.IsZero() || t.Before(d.LostAt)) {
			d.LostAt, why = t, text
		}
	}
	at(c.status.LostAt, "its attempts are used up then")
	more := ""
	if et := a.o.Host.EventType(c.Event); et != nil && et.Topic() != nil && c.Behind != nil && *c.Behind > 0 {
		kept := et.Topic().Kept()
		if kept.MaxAge > 0 && !c.WaitingSince.IsZero() {
			at(c.WaitingSince.Add(kept.MaxAge), "the log keeps events for "+plain.Duration(kept.MaxAge))
		}
		if kept.MaxCount < math.MaxInt {
			more = fmt.Sprintf(" The log keeps at least %d events: %d more may push out the oldest.", kept.MaxCount, max(int64(kept.MaxCount)-*c.Behind, 0)+1)
		}
	}
	if !d.LostAt.IsZero() {
		d.Text += fmt.Sprintf(" What is not delivered by %s is lost: %s.", formatUTC(d.LostAt), why)
	}
	d.Text += more
}

func entries(n int64) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

// formatUTC formats a time for use in a sentence.
func formatUTC(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return plain.Time(t)
}
