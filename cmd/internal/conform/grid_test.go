package conform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A cell is one member of one message, changed in one way.
type cell struct{ message, member, change string }

// members are those of each message, with the changes of their values that a document forbids, beside absent, null and
// another type.
var members = map[string]map[string][]string{
	wire.MethodList:            {"events": {"empty"}},
	"descriptor":               {"name": {"empty"}, "description": nil, "delivery": {"unknown"}, "inputSchema": nil, "payloadSchema": nil},
	wire.MethodPoll:            {"events": {"reversed", "twice"}, "cursor": {"behind", "ahead", "foreign"}, "truncated": {"inverted"}, "hasMore": {"inverted"}, "nextPollMs": {"negative"}},
	"occurrence":               {"eventId": {"other"}, "name": {"other"}, "timestamp": {"later", "word"}, "data": {"other"}},
	wire.NotificationActive:    {"cursor": {"behind", "ahead", "foreign"}, "truncated": {"inverted"}, "_meta": {"other"}},
	wire.NotificationEvent:     {"eventId": {"other"}, "name": {"other"}, "timestamp": {"later", "word"}, "data": {"other"}, "cursor": {"behind", "ahead", "foreign"}, "_meta": {"other"}},
	wire.NotificationHeartbeat: {"cursor": {"behind", "ahead", "foreign"}, "_meta": {"other"}},
	wire.MethodSubscribe:       {"id": {"other"}, "refreshBefore": {"later", "past", "word"}, "cursor": {"behind", "ahead", "foreign"}, "truncated": {"inverted"}, "deliveryStatus": nil},
	"status":                   {"active": {"inverted"}, "lastDeliveryAt": {"word"}, "lastError": nil},
	"error":                    {"code": {"other"}, "message": nil, "data": {"other"}},
	"response":                 {"jsonrpc": {"other"}, "id": {"ahead"}},
	"delivery":                 {"eventId": {"other"}, "name": {"other"}, "timestamp": {"later", "word"}, "data": {"other"}, "cursor": {"behind", "ahead", "foreign"}},
	"headers": {"webhook-id": {"other"}, "webhook-timestamp": {"behind", "word"}, "webhook-signature": {"other"}, "x-mcp-subscription-id": {"other"},
		"content-type": {"other"}},
}

// allowed are cells that are right, or that nobody sees: why.
var allowed = map[cell]string{
	{wire.MethodSubscribe, "cursor", "behind"}:         "an older watermark is a safe one",
	{"delivery", "cursor", "behind"}:                   "an older watermark is a safe one",
	{wire.MethodSubscribe, "deliveryStatus", "absent"}: "it is optional",
	{"status", "lastDeliveryAt", "null"}:               "it is null while nothing was delivered",
	{"status", "lastError", "null"}:                    "it is null while nothing failed",
	{"status", "lastError", "type"}:                    "any text is a reason",
	{wire.MethodList, "events", "empty"}:               "a server may have no event types for this caller",
}

func (c cell) name() string {
	return strings.ReplaceAll(fmt.Sprintf("%s %s %s", c.message, c.member, c.change), "/", ".")
}

// cells returns the grid, sorted by name.
func cells() (all []cell) {
	for message, of := range members {
		for member, changes := range of {
			for _, change := range append([]string{"absent", "null", "type"}, changes...) {
				c := cell{message, member, change}
				if allowed[c] == "" {
					all = append(all, c)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b cell) int { return strings.Compare(a.name(), b.name()) })
	return all
}

// apply changes a message.
func (c cell) apply(message string, m map[string]any) {
	switch c.message {
	case "descriptor":
		if message == wire.MethodList {
			for _, d := range asList(m["events"]) {
				c.spoil(d)
			}
		}
		return
	case "occurrence":
		if message == wire.MethodPoll {
			for _, o := range asList(m["events"]) {
				c.spoil(o)
			}
		}
		return
	case "status":
		if status, ok := m["deliveryStatus"].(map[string]any); ok && message == wire.MethodSubscribe {
			c.spoil(status)
		}
		return
	}
	if message == c.message {
		c.spoil(m)
	}
}

func asList(v any) (all []map[string]any) {
	list, _ := v.([]any)
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

func (c cell) spoil(m map[string]any) {
	old, there := m[c.member]
	if !there {
		return
	}
	text, _ := old.(string)
	number := func(by int) string {
		name, digits, found := strings.Cut(text, ":")
		if !found {
			digits = text
		}
		n, _ := strconv.Atoi(digits)
		if !found {
			return fmt.Sprint(n + by)
		}
		return fmt.Sprintf("%s:%d", name, max(n+by, 0))
	}
	switch c.change {
	case "absent":
		delete(m, c.member)
	case "null":
		m[c.member] = nil
	case "type":
		switch old.(type) {
		case string:
			m[c.member] = 5
		case float64, int:
			m[c.member] = "5"
		default:
			m[c.member] = "text"
		}
	case "behind":
		m[c.member] = number(-3600)
		if strings.Contains(text, ":") {
			m[c.member] = number(-3)
		}
	case "ahead":
		m[c.member] = number(3)
		if old != nil && text == "" {
			m[c.member] = 999_999
		}
	case "foreign":
		m[c.member] = "spare:1"
	case "inverted":
		b, _ := old.(bool)
		m[c.member] = !b
	case "empty":
		m[c.member] = ""
		if _, ok := old.([]any); ok {
			m[c.member] = []any{}
		}
	case "negative":
		m[c.member] = -5
	case "word":
		m[c.member] = "soon"
	case "unknown":
		m[c.member] = []string{"pigeon"}
	case "past":
		m[c.member] = "1999-01-01T00:00:00Z" // bubbles begin in 2000
	case "later":
		if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
			m[c.member] = at.Add(30 * time.Minute).Format(time.RFC3339Nano)
		}
	case "reversed", "twice":
		list, _ := old.([]any)
		var changed []any
		for _, e := range list {
			if c.change == "reversed" {
				changed = append([]any{e}, changed...)
			} else {
				changed = append(changed, e, e)
			}
		}
		if changed != nil {
			m[c.member] = changed
		}
	case "other":
		switch v := old.(type) {
		case string:
			m[c.member] = "x" + v
		case float64, int64:
			m[c.member] = -32099
		case map[string]any:
			other := map[string]any{}
			for k := range v {
				other[k] = "other"
			}
			if v["seq"] != nil {
				other["seq"] = 0
			}
			m[c.member] = other
		}
	}
}

// TestGrid judges a server for each cell, and reports each cell that no check names. An ordinary run tries two cells,
// `make night` all.
func TestGrid(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	tried, missed := 0, 0
	t.Run("each", func(t *testing.T) {
		for _, c := range sampletest.Draw(t, cells(), 2) {
			t.Run(c.name(), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					n := &site{t: t}
					w := n.wrongOptions("")
					w.Change = c.apply
					o := n.options(n.wrong(w))
					o.door = n.door(hookHost)
					report, err := Run(t.Context(), o)
					mu.Lock()
					defer mu.Unlock()
					tried++
					if err != nil {
						t.Logf("unreachable: %v", err)
						return
					}
					for _, f := range report.Findings {
						if f.Outcome == verdict.Fail || f.Outcome == verdict.Advice {
							t.Logf("first: %s %s %s: expected %s, got %s", f.Outcome, f.ID, f.Name, f.Expected, f.Got)
							return
						}
					}
					missed++
					t.Errorf("not named: %s", text(report))
				})
			})
		}
	})
	t.Logf("%d of %d named", tried-missed, tried)
}
