package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// A limit is a row of the table in docs/limits.md.
type limit struct {
	// value is what the row has to say, made from the code's own constant.
	value string
	// exceed goes beyond the limit and checks the answer; nil where a test elsewhere does.
	exceed func(t *testing.T)
	// test is that one: its package's path below runtime and its name, as in "transport.TestMaxBody".
	test string
}

// limits has an entry for each row, by the row's name. Rows of other packages add theirs here.
var limits = map[string]limit{
	"Event name": {value: fmt.Sprint(wire.MaxEventName, " bytes"), exceed: func(t *testing.T) {
		s := newServer(t, Options{})
		if _, err := Register(s, incidentType(strings.Repeat("e", wire.MaxEventName+1)), Hooks[filterArgs, incident]{}); err == nil {
			t.Error("it is registered")
		}
		_, rerr := call(s, "", wire.MethodPoll, `{"name":"`+strings.Repeat("e", 200<<10)+`"}`)
		wantError(t, rerr, -32011, `{"kind":"event"}`)
	}},
	"eventId": {value: fmt.Sprint(wire.MaxEventID, " bytes"), exceed: func(t *testing.T) {
		e := register(t, newServer(t, Options{}), "e", Hooks[filterArgs, incident]{})
		if err := e.Emit(t.Context(), incident{ID: "x"}, events.WithID(strings.Repeat("i", wire.MaxEventID+1))); !errors.Is(err, events.ErrEventID) {
			t.Error(err)
		}
	}},
	"Payload": {value: bytesText(defaultMaxBytes), exceed: func(t *testing.T) {
		e := register(t, newServer(t, Options{}), "e", Hooks[filterArgs, incident]{})
		if err := e.Emit(t.Context(), incident{ID: "x", Service: strings.Repeat("s", defaultMaxBytes)}); !errors.Is(err, events.ErrTooLarge) {
			t.Error(err)
		}
	}},
	"Payload where webhook is offered": {value: bytesText(wire.MaxPayload), exceed: func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, w *world) {
			e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			if err := e.Emit(t.Context(), incident{ID: "x", Service: strings.Repeat("s", wire.MaxPayload)}); !errors.Is(err, events.ErrTooLarge) {
				t.Error(err)
			}
		})
	}},
	"Arguments": {value: bytesText(defaultMaxArguments), exceed: func(t *testing.T) {
		wantInvalid(t, ofSize(defaultMaxArguments), "", "")
		wantInvalid(t, ofSize(defaultMaxArguments+1), "/arguments", "is 65537 bytes of JSON, at most 65536")
	}},
	"Params of a request": {value: bytesText(defaultMaxParams), exceed: func(t *testing.T) {
		s := newServer(t, Options{})
		register(t, s, "e", Hooks[filterArgs, incident]{})
		params := func(n int) string { return `{"name":"e","x":"` + strings.Repeat("x", n-19) + `"}` }
		if _, rerr := call(s, "", wire.MethodPoll, params(defaultMaxParams)); rerr != nil {
			t.Error(rerr)
		}
		_, rerr := call(s, "", wire.MethodPoll, params(defaultMaxParams+1))
		wantError(t, rerr, -32602, `{"errors":[{"path":"","message":"have 262145 bytes of JSON, at most 262144"}]}`)
	}},
	"Depth of arguments": {value: fmt.Sprint(wire.MaxDepth, " levels"), exceed: func(t *testing.T) {
		deep := `{"any":` + strings.Repeat("[", wire.MaxDepth) + strings.Repeat("]", wire.MaxDepth) + `}`
		wantInvalid(t, deep, "/any"+strings.Repeat("/0", wire.MaxDepth-1), "is nested deeper than 512 levels")
	}},
	"Integers in arguments": {value: fmt.Sprint("±", wire.MaxInteger), exceed: func(t *testing.T) {
		wantInvalid(t, `{"minLevel":9007199254740991}`, "", "")
		wantInvalid(t, `{"minLevel":9007199254740993}`, "/minLevel", "is beyond ±9007199254740991, the integers that every peer represents exactly")
	}},
	"Glob pattern": {value: bytesText(topic.MaxPattern), exceed: func(t *testing.T) {
		wantInvalid(t, `{"service":"`+strings.Repeat("*", topic.MaxPattern+1)+`"}`, "/service", "is a pattern of 1025 bytes, at most 1024")
	}},
	"Part of a glob pattern between two stars, if it contains a ?": {value: fmt.Sprint(topic.MaxRun, " bytes"), exceed: func(t *testing.T) {
		for _, pattern := range []string{"*" + strings.Repeat("?", topic.MaxRun) + "*", "*" + strings.Repeat("a", topic.MaxRun+1) + "*", strings.Repeat("?", 500) + "*" + strings.Repeat("?", 500)} {
			wantInvalid(t, `{"service":"`+pattern+`"}`, "", "")
		}
		wantInvalid(t, `{"service":"*`+strings.Repeat("a", topic.MaxRun)+`?*"}`, "/service", "has 129 bytes with a ? between two stars, at most 128")
	}},
	"Estimated time of one `x-match` test, for each byte of the payload": {value: fmt.Sprint(topic.FilterCost, " ns"), test: "internal/topic.FuzzGlob"},
	"Kept for one principal":               {value: bytesText(defaultShare), test: "server.TestMemoryShares"},
	"Kept for callers without a principal": {value: bytesText(defaultTotal / anonymousShare), test: "server.TestMemoryShares"},
	"Kept for all callers":                 {value: bytesText(defaultTotal), test: "server.TestMemoryShares"},
	"Result of one poll":                   {value: bytesText(defaultMaxPage), test: "server.TestPagesInBytes"},
	"Occurrences of one poll": {value: "1,000", exceed: func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		c := pollFrom(t, s, nil, "").Cursor
		for i := range 1001 {
			emit(t, e, incident{ID: fmt.Sprint("x", i)})
		}
		for _, more := range []string{`,"maxEvents":1001`, `,"maxEvents":9223372036854775807`, `,"maxEvents":1e300`} {
			if r := pollFrom(t, s, c, more); len(r.Events) != 1000 || !*r.HasMore {
				t.Errorf("%s: %d occurrences, hasMore %v", more, len(r.Events), *r.HasMore)
			}
		}
	}},
	"Work of one poll": {value: "4,096 units", exceed: func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		c := pollFrom(t, s, nil, "").Cursor
		for i := range 4097 {
			emit(t, e, incident{ID: fmt.Sprint("x", i)})
		}
		r := pollFrom(t, s, c, `,"arguments":{"severity":"P1"}`)
		if len(r.Events) != 0 || !*r.HasMore || position(t, *r.Cursor) != 4096 {
			t.Errorf("hasMore %v at %d", *r.HasMore, position(t, *r.Cursor))
		}
		for i := range 1100 {
			emit(t, e, incident{ID: fmt.Sprint("y", i), Service: strings.Repeat("a", 3*topic.UnitBytes)})
		}
		// The rest of the small entries, and then entries of 4 units, or 14 more for a pattern that takes 147 µs.
		for pattern, want := range map[string]int{"b*": 4097 + 4095/4 + 1, "*" + strings.Repeat("a?", 60) + "b*": 4097 + 4095/18 + 1} {
			dear := pollFrom(t, s, r.Cursor, `,"arguments":{"service":"`+pattern+`"}`)
			if len(dear.Events) != 0 || !*dear.HasMore || position(t, *dear.Cursor) != uint64(want) {
				t.Errorf("%s: hasMore %v at %d, want %d", pattern, *dear.HasMore, position(t, *dear.Cursor), want)
			}
		}
	}},
	"Time of a held poll": {value: "30 s", exceed: func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{})
			register(t, s, "e", Hooks[filterArgs, incident]{})
			c := pollFrom(t, s, nil, "").Cursor
			for _, ms := range []string{"31000", "9223372036854775807", "1e300"} {
				began := time.Now()
				if pollFrom(t, s, c, `,"timeoutMs":`+ms); time.Since(began) != 30*time.Second {
					t.Errorf("timeoutMs %s was held %v", ms, time.Since(began))
				}
			}
		})
	}},
	"Cursor": {value: bytesText(topic.MaxCursor), exceed: func(t *testing.T) {
		s := newServer(t, Options{})
		register(t, s, "e", Hooks[filterArgs, incident]{})
		if err := RegisterCheck(s, incidentType("c"), (&mailbox{}).check, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		// It would be a cursor of the check, were it shorter.
		own, err := wire.ParseCursor(*poll(t, s, `{"name":"c"}`).Cursor)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{topic.MaxCursor, 150 << 10} {
			own.Upstream = strings.Repeat("c", n)
			long := own.String()
			for _, name := range []string{"e", "c"} {
				p := fmt.Sprintf(`{"name":%q,"cursor":%q}`, name, long)
				if r := poll(t, s, p); !*r.Truncated || len(*r.Cursor) > 100 {
					t.Errorf("poll of %s: truncated %v, cursor of %d bytes", name, *r.Truncated, len(*r.Cursor))
				}
				l := stream(t, s, p)
				waitFor(t, func() bool { return len(l.frames()) > 0 })
				if f := l.frames()[0]; !f.params.Truncated || len(f.raw) > 500 {
					t.Errorf("stream of %s: %.300s", name, f.raw)
				}
			}
			_, rerr := call(s, "", wire.MethodList, fmt.Sprintf(`{"cursor":%q}`, long))
			wantError(t, rerr, -32602, fmt.Sprintf(`{"errors":[{"path":"/cursor","message":"is a cursor of %d bytes, at most 32768"}]}`, len(long)))
		}
	}},
	"Cursor of an upstream": {value: bytesText(feed.MaxUpstream), exceed: func(t *testing.T) {
		s := newServer(t, Options{})
		size := feed.MaxUpstream
		check := func(context.Context, filterArgs, string) (events.Page[incident], error) {
			return events.Page[incident]{Cursor: strings.Repeat("c", size)}, nil
		}
		if err := RegisterCheck(s, incidentType("e"), check, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		if r := pollFrom(t, s, pollFrom(t, s, nil, "").Cursor, ""); *r.Truncated {
			t.Error("a cursor of the largest size does not come back")
		}
		size++
		_, rerr := call(s, "", wire.MethodPoll, `{"name":"e"}`)
		wantError(t, rerr, -32603, "*")
	}},
	"Retained occurrences of a type":                           {value: "10,000", test: "server.TestStrangeCursors"},
	"Memory for the occurrences of a type, in a log in memory": {value: bytesText(defaultBytes), test: "server.TestRetentionInBytes"},
	"Entries of a durable log kept in memory":                  {value: bytesText(2 * recent.Bytes), test: "internal/recent.TestBounds"},
	"Retained time": {value: "1 h", test: "server.TestLimitRetainedTime"},
	"Page of events/list": {value: "100, and about 1 MiB", exceed: func(t *testing.T) {
		s := newServer(t, Options{})
		for i := range 101 {
			register(t, s, fmt.Sprint("e", i), Hooks[filterArgs, incident]{})
		}
		raw, rerr := call(s, "", wire.MethodList, `{}`)
		var r wire.ListResult
		if json.Unmarshal(raw, &r); rerr != nil || len(r.Events) != 100 || r.NextCursor == "" {
			t.Errorf("%d events, nextCursor %q, %v", len(r.Events), r.NextCursor, rerr)
		}
	}},
	"Live streams of a principal": {value: "none", exceed: func(t *testing.T) {
		exceedStreams(t, Options{MaxStreams: 2})
	}},
	"Live streams of a principal and type": {value: "none", exceed: func(t *testing.T) {
		exceedStreams(t, Options{MaxStreamsPerType: 2})
	}},
	"Calls of an event type's check at once": {value: fmt.Sprint(defaultCalls), test: "internal/feed.TestCAP5ChecksTakeTurns"},
	"The same for one principal":             {value: fmt.Sprint(defaultCallsEach), test: "internal/feed.TestCAP5ChecksTakeTurns"},
	"Different arguments that a principal has a check called with, at once": {value: fmt.Sprint(defaultChecks), exceed: func(t *testing.T) {
		s := newServer(t, Options{Checks: Checks{PerPrincipal: 2}})
		check := func(context.Context, filterArgs, string) (events.Page[incident], error) {
			return events.Page[incident]{Cursor: "c"}, nil
		}
		if err := RegisterCheck(s, incidentType("e"), check, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		params := func(prefix string) string { return fmt.Sprintf(`{"name":"e","arguments":{"prefix":%q}}`, prefix) }
		first := streamAs(t, s, "ada", params("a"))
		streamAs(t, s, "ada", params("b"))
		streamAs(t, s, "ada", params("b"))
		_, rerr := openStream(s, "ada", params("c"))
		wantError(t, rerr, -32013, `{"limit":"checks","max":2}`)
		_, rerr = call(s, "ada", wire.MethodPoll, params("c"))
		wantError(t, rerr, -32013, `{"limit":"checks","max":2}`)
		streamAs(t, s, "ben", params("c"))
		first.cancel()
		<-first.done
		streamAs(t, s, "ada", params("c"))
	}},
	"Requests of a principal open at once over HTTP":            {value: "4,096", test: "transport.TestCAP7OpenRequests"},
	"Sessions of a principal, of revision 2025-11-25 or before": {value: "1,024", test: "transport.TestCAP7IdleSessionsMakeRoom"},
	"Idle time of such a session":                               {value: "30 min", test: "transport.TestCAP7IdleSessionsEnd"},
	"Requests and sessions without a principal, of one address": {value: "as many as a principal has", test: "transport.TestCAP7SessionsOfNobody"},
	"Requests and sessions without a principal, all together":   {value: "16 times as many", test: "transport.TestCAP7Nobody"},
	"Interval of heartbeats": {value: "30 s", exceed: func(t *testing.T) {
		if o := (Options{Heartbeat: time.Hour}).withDefaults(); o.Heartbeat != 30*time.Second {
			t.Errorf("every %v", o.Heartbeat)
		}
	}},
	"Written to a stream at once":                                  {value: bytesText(topic.PullBytes), test: "server.TestPassesInBytes"},
	"Encoded occurrences and results of Transform kept for a type": {value: bytesText(topic.MaxRecordBytes), test: "internal/topic.TestVariantsAreBounded"},
	"Webhook subscriptions of a principal": {value: "100", exceed: func(t *testing.T) {
		exceedWebhooks(t, func(o *Options) {}, 100, func(int) string { return "ada" })
	}},
	"Webhook subscriptions": {value: "100,000", exceed: func(t *testing.T) {
		exceedWebhooks(t, func(o *Options) { o.webhook().Quota.Total = 5 }, 5, func(i int) string { return fmt.Sprint("p", i) })
	}},
	"Test of one subscriber under the append lock": {value: fmt.Sprint(topic.MaxCost, " ns"), test: "internal/topic.TestMayMatchIsBounded"},

	"inputSchema of a tool without references": {value: bytesText(schematree.MaxInlined), test: "../internal/toolschema.TestInputSchemaIsBounded"},

	// Of the carriers.
	"Body of a request over HTTP":                                  {value: "4 MiB", test: "transport.TestParityWithSDK"},
	"Time for a request's body to arrive":                          {value: "30 s", test: "transport.TestSlowBody"},
	"Time for one write to a stream":                               {value: "30 s", test: "transport.TestStalledReaderIsCut"},
	"Response that an [overlay](overlay.md) changes":               {value: "4 MiB", test: "overlay.TestLongAndAbortedAnswers"},
	"Time for the other server's consent to a call, in an overlay": {value: "10 s", test: "overlay.TestUnusableAnswers"},
	"Header of the protocol":                                       {value: "1 KiB", test: "transport.TestLongHeaders"},
	"Nesting of a message":                                         {value: "1,000 levels", test: "transport.TestLineErrors"},
	"JSON-RPC id":                                                  {value: "1 KiB", test: "transport.TestLineErrors"},
	"Early cancellations kept":                                     {value: "2 s", test: "transport.TestEarlyCancelsAreBounded"},
	"Caller's text in a message":                                   {value: fmt.Sprint(wire.MaxShown, " bytes"), test: "internal/fault.TestRefusalMessages"},

	// Of webhooks.
	"Callback URL":                       {value: "2,048 bytes", test: "internal/webhooks/netguard.TestSUB3ParseURL"},
	"Webhook secret":                     {value: fmt.Sprint(wire.MinSecret, " to ", wire.MaxSecret, " bytes"), test: "server.TestWrongCalls"},
	"Lifetime of a webhook subscription": {value: "1 min to 24 h", test: "server/webhooks.TestSUB6TTL"},
	"Verified callbacks of a principal":  {value: "2,000", test: "server.TestVER3Quota"},
	"Verified callbacks":                 {value: "200,000", test: "server.TestVER3Quota"},
	"Failed verifications a minute, of a principal; twice as many of a host": {value: "10", test: "server.TestVER3Budget"},
	"Document of a receiver's consent":                                       {value: fmt.Sprint("8 KiB and ", verify.MaxReceivers, " entries"), test: "internal/webhooks/verify.TestVER1Ways"},
	"Answer of an endpoint":                                                  {value: "8 KiB", test: "internal/webhooks/netguard.TestSSRF2BoundedBodies"},
	"Retry-After of an endpoint":                                             {value: "15 min", test: "internal/webhooks/delivery.TestHOOK3Schedule"},
	"Failures of an endpoint":                                                {value: "more than 95 % of at least 100 attempts in 1 h, and for 5 min", test: "internal/webhooks/delivery.TestHOOK5ShortOutage"},
	"Found by a check for a webhook subscription and unsettled":              {value: fmt.Sprintf("2,048 occurrences, %s", bytesText(subscriber.MaxFoundBytes)), test: "server.TestFoundIsBounded"},
	"Unsettled occurrences of a subscription":                                {value: "1,024", test: "internal/webhooks/delivery.TestHOOK8UnsettledBound"},
	"One iteration of a check that yields":                                   {value: fmt.Sprint(maxYielded, " occurrences, ", secondsText(yieldTime)), test: "server.TestSRV1Yield"},
	"Waiting for a check in events/subscribe":                                {value: secondsText(feed.AskTime), test: "server.TestSUB1HangingCheck"},
	"Waiting for the response before the first delivery":                     {value: secondsText(subscriber.MaxReplyTime), test: "internal/webhooks/subscriber.TestSUB1NothingOvertakesTheResponse"},
}

// Every limit that docs/limits.md gives is the code's, and going beyond it is answered as a test
// says; every test has its row.
func TestLimits(t *testing.T) {
	doc, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	missing := maps.Clone(limits)
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || strings.HasPrefix(cells[0], "-") || strings.TrimSpace(cells[0]) == "Limit" {
			continue
		}
		rows++
		name, value := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1])
		l, ok := limits[name]
		if !ok {
			t.Errorf("nothing tests the row %q", name)
			continue
		}
		delete(missing, name)
		if l.value != value {
			t.Errorf("%s: the table says %q, the code %q", name, value, l.value)
		}
		if strings.TrimSpace(cells[3]) == "" {
			t.Errorf("%s: what happens beyond it?", name)
		}
		t.Run(name, func(t *testing.T) {
			if l.exceed != nil {
				l.exceed(t)
			} else if !testExists(t, l.test) {
				t.Errorf("there is no test %s", l.test)
			}
		})
	}
	for name := range missing {
		t.Errorf("the table has no row %q", name)
	}
	if rows == 0 {
		t.Error("the table cannot be read")
	}
	o := Options{Webhooks: webhooks.New(webhooks.Options{})}.withDefaults()
	if o.MaxEventsCap != 1000 || o.ScanLimit != 4096 || o.MaxWait != 30*time.Second || o.PageSize != 100 || o.MaxStreams != 0 ||
		o.Retention != (Retention{MaxAge: time.Hour, MaxCount: 10_000}) || o.Heartbeat != 15*time.Second ||
		o.MaxPayload != defaultMaxBytes || o.MaxArguments != defaultMaxArguments || o.MaxPage != defaultMaxPage || o.MemoryQuota != (Quota{defaultShare, defaultTotal}) {
		t.Errorf("the options' defaults are others than those of the table: %+v", o)
	}
}

func secondsText(d time.Duration) string { return fmt.Sprint(d.Seconds(), " s") }

// testExists looks for a test function in the sources of a package below runtime.
func testExists(t *testing.T, name string) bool {
	dot := strings.LastIndex(name, ".")
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(name[:dot]), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func ` + regexp.QuoteMeta(name[dot+1:]) + `\(`)
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if declared.Match(source) {
			return true
		}
	}
	return false
}

// bytesText is a number of bytes as the table has it.
func bytesText(n int) string {
	if n%(1<<20) == 0 {
		return fmt.Sprint(n>>20, " MiB")
	}
	return fmt.Sprint(n>>10, " KiB")
}

// wantInvalid polls with arguments and wants them refused, or taken where no path is given; and in
// either case that nothing but a lease is left.
func wantInvalid(t *testing.T, args, path, message string) {
	t.Helper()
	s := newServer(t, Options{})
	register(t, s, "e", Hooks[filterArgs, incident]{})
	_, rerr := call(s, "", wire.MethodPoll, `{"name":"e","arguments":`+args+`}`)
	if path == "" {
		if rerr != nil || len(s.leases.All()) != 1 {
			t.Errorf("%.40s: %v", args, rerr)
		}
		return
	}
	wantError(t, rerr, -32602, fmt.Sprintf(`{"errors":[{"path":%q,"message":%q}]}`, path, message))
	if len(s.leases.All()) != 0 || s.memoryUsage.total != 0 {
		t.Error("something is left")
	}
}

func exceedStreams(t *testing.T, o Options) {
	s := newServer(t, o)
	register(t, s, "e", Hooks[filterArgs, incident]{})
	first := streamAs(t, s, "ada", `{"name":"e"}`)
	streamAs(t, s, "ada", `{"name":"e"}`)
	_, rerr := openStream(s, "ada", `{"name":"e"}`)
	wantError(t, rerr, -32013, `{"limit":"streams","max":2}`)
	streamAs(t, s, "ben", `{"name":"e"}`)
	first.cancel()
	<-first.done
	streamAs(t, s, "ada", `{"name":"e"}`) // the slot is free, and the refused one took none
}

func exceedWebhooks(t *testing.T, change func(*Options), n int, principal func(int) string) {
	bubble(t, change, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		p := func(i int) string { return params(plain, secretA, fmt.Sprintf(`,"arguments":{"prefix":"%d"}`, i)) }
		for i := range n {
			w.subscribe(principal(i), p(i))
		}
		_, rerr := call(w.Server, principal(n), wire.MethodSubscribe, p(n))
		wantError(t, rerr, -32013, fmt.Sprintf(`{"limit":"subscriptions","max":%d}`, n))
		if len(w.live().Holding().Live) != n {
			t.Errorf("%d live", len(w.live().Holding().Live))
		}
	})
}

// Retention by time: what is older than an hour is not replayed, and who asks for it is told.
func TestLimitRetainedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		c := pollFrom(t, s, nil, "").Cursor
		emit(t, e, incident{ID: "x"})
		time.Sleep(time.Hour)
		if r := pollFrom(t, s, c, ""); len(r.Events) != 1 || *r.Truncated {
			t.Errorf("after an hour: %v", r.ids())
		}
		time.Sleep(time.Nanosecond)
		if r := pollFrom(t, s, c, ""); len(r.Events) != 0 || !*r.Truncated {
			t.Errorf("after more than an hour: %v, truncated %v", r.ids(), *r.Truncated)
		}
	})
}
