package campaign

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsclient"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// A consumer receives tickets from the cluster until its context is done.
type consumer interface {
	run(ctx context.Context)
	result() *record
}

// A caller sends raw requests of revision 2026-07-28, so it can inspect the messages on the wire.
type caller struct {
	base   string
	hc     *http.Client
	ledger *ledger
	*record
	cursor *string // position from which it continues
}

func (c *caller) result() *record { return c.record }

// params returns the params of a poll or a stream, extended with the given members.
func (c *caller) params(more map[string]any) map[string]any {
	p := map[string]any{"name": tickets.TicketCreatedEventName, "arguments": arguments(c.severity), "cursor": c.cursor}
	maps.Copy(p, more)
	return p
}

// maxAge is the maximum difference between the timestamp of an occurrence and the time its ticket was opened. An emit
// can be retried many times. The clocks of the replicas differ by more than maxAge.
const maxAge = 10 * time.Minute

// took records an occurrence. Its timestamp must be the database's time (REP-8).
func (c *caller) took(o occurrence) {
	c.got(o.Data.TicketID, c.ledger)
	if e, ok := c.ledger.get(o.Data.TicketID); ok && o.Timestamp.Sub(e.Opened.Time).Abs() > maxAge {
		c.fail(fmt.Errorf("%s of %v has the timestamp %v", e.ID, e.Opened, o.Timestamp))
	}
}

func arguments(severity string) map[string]any {
	if severity == "" {
		return map[string]any{}
	}
	return map[string]any{"severity": severity}
}

// call sends a request for an extension method as the common principal. The caller closes the response.
func call(ctx context.Context, hc *http.Client, base, method string, params map[string]any) (*http.Response, error) {
	return callAs(ctx, hc, base, principal, method, params)
}

// callAs is like [call], but uses the token of another principal.
func callAs(ctx context.Context, hc *http.Client, base, token, method string, params map[string]any) (*http.Response, error) {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "campaign", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/mcp", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := hc.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %s: %s", method, resp.Status, text)
	}
	return resp, nil
}

// An occurrence contains the data that consumers check. They identify an occurrence by its ticket, not by its eventId,
// because generated eventIds would hide that an occurrence was appended twice.
type occurrence struct {
	Type      string    `json:"type"` // of an envelope
	Timestamp time.Time `json:"timestamp"`
	Data      struct {
		TicketID string `json:"ticketId"`
	} `json:"data"`
}

// An answer is the JSON-RPC response to a poll.
type answer struct {
	Result struct {
		Events    []occurrence `json:"events"`
		Cursor    *string      `json:"cursor"`
		Truncated bool         `json:"truncated"`
		HasMore   bool         `json:"hasMore"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// temporary reports whether a server returns this error code while its database is unavailable. Any other error is a
// finding.
func temporary[T int | int64](code T) bool { return code == -32603 }

// poll polls once.
func (c *caller) poll(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	resp, err := call(ctx, c.hc, c.base, wire.MethodPoll, c.params(map[string]any{"timeoutMs": 1000, "maxEvents": 50}))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var a answer
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return false, err
	}
	if a.Error != nil {
		err := fmt.Errorf("poll: %d %s", a.Error.Code, a.Error.Message)
		if !temporary(a.Error.Code) {
			c.fail(err)
		}
		return false, err
	}
	if a.Result.Truncated {
		c.gap()
	}
	for _, e := range a.Result.Events {
		c.took(e)
	}
	c.cursor = a.Result.Cursor
	return a.Result.HasMore, nil
}

// A poller polls repeatedly, each time at another replica.
type poller struct{ caller }

func (p *poller) run(ctx context.Context) {
	for ctx.Err() == nil {
		if _, err := p.poll(ctx); err != nil && ctx.Err() == nil {
			p.trouble()
			Sleep(ctx, 20*time.Millisecond)
		}
	}
}

// A streamer keeps a stream open. When the stream ends, it opens a new one at another replica.
type streamer struct{ caller }

func (s *streamer) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.stream(ctx); err != nil && ctx.Err() == nil {
			s.trouble()
			Sleep(ctx, 20*time.Millisecond)
		}
	}
}

// stream reads one stream until it ends or its replica has been silent for too long.
func (s *streamer) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(answerTime, cancel)
	defer silence.Stop()
	resp, err := call(ctx, s.hc, s.base, wire.MethodStream, s.params(nil))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		silence.Reset(3 * heartbeat)
		text, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var f struct {
			Method string `json:"method"`
			Params struct {
				occurrence
				Cursor    *string `json:"cursor"`
				Truncated bool    `json:"truncated"`
			} `json:"params"`
			Error *struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		if f.Error != nil {
			err := fmt.Errorf("stream: %d %s", f.Error.Code, f.Error.Message)
			if !temporary(f.Error.Code) {
				s.fail(err)
			}
			return err
		}
		if f.Params.Truncated {
			s.gap()
		}
		switch f.Method {
		case wire.NotificationEvent:
			s.took(f.Params.occurrence)
		case wire.NotificationTerminated:
			s.fail(errors.New("the stream was terminated: " + text))
		}
		if f.Params.Cursor != nil {
			s.cursor = f.Params.Cursor
		}
	}
	return lines.Err()
}

// A typed consumer works like a user's program, with a generated subscription and the project's client. It uses either
// default options or short delays, so that more faults coincide with requests.
type typed struct {
	caller
	mode     string
	defaults bool
}

func (t *typed) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := t.subscribe(ctx); err != nil && ctx.Err() == nil {
			t.trouble()
			Sleep(ctx, 50*time.Millisecond)
		}
	}
}

// A bearer is a transport that adds the principal's token to requests.
type bearer struct{ next http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+principal)
	return b.next.RoundTrip(r)
}

func (t *typed) subscribe(ctx context.Context) error {
	hc := &http.Client{Transport: bearer{t.hc.Transport}}
	o := client.Options{Mode: t.mode, Logger: slog.New(slog.DiscardHandler)}
	if !t.defaults {
		o.Heartbeat, o.PollFloor, o.LongPoll, o.CallTimeout = heartbeat, 20*time.Millisecond, time.Second, answerTime
		o.Backoff = client.Backoff{Min: 20 * time.Millisecond, Max: 500 * time.Millisecond}
	}
	c, err := client.Connect(ctx, client.HTTP(t.base+"/mcp", hc), o)
	if err != nil {
		return err
	}
	defer c.Close()
	args := tickets.TicketCreatedArguments{Severity: tickets.Severity(t.severity)}
	sub, err := ticketsclient.SubscribeTicketCreated(ctx, c, args, client.WithCursor(*t.cursor))
	if err != nil {
		return err
	}
	defer sub.Close()
	for ev, err := range sub.Events() {
		var gap *client.GapError
		switch {
		case err == nil:
			t.got(ev.Data.TicketID, t.ledger)
			t.cursor = &ev.Cursor
		case errors.As(err, &gap):
			t.gap()
		case client.Final(err):
			return err
		default:
			t.trouble()
		}
	}
	return ctx.Err()
}
