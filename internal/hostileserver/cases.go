package hostileserver

import (
	"slices"
	"strings"
)

// A Case is a kind of misbehavior. In its texts, the server replaces $ID with the ID of the request, $N with a number
// that is different each time, and $NOW with the time.
type Case struct {
	// Name identifies the case.
	Name string
	// Method is the method that the server responds to incorrectly.
	Method string
	// Frames lists messages to send before the response, as SSE events or lines. Repeat is the number of times to send
	// them.
	Frames []string
	Repeat int
	// Message is the response, or "" for no response.
	Message string
	// Hold keeps the HTTP body open, and Abort closes the connection abruptly. Otherwise the body ends.
	Hold, Abort bool

	// HTTP is set if the case is only for HTTP.
	HTTP bool
	// Status, Type and Header specify the HTTP response. Raw is its unchanged body.
	Status int
	Type   string
	Header map[string]string
	Raw    string

	// Harmless reports whether the client may ignore the misbehavior, because it does not lose any data.
	Harmless bool
	// Says is a text that the client's error must contain, or "" if any error is acceptable.
	Says string
}

func (c Case) frames() []string {
	if c.Repeat == 0 {
		return c.Frames
	}
	return slices.Repeat(c.Frames, c.Repeat)
}

// Large is the size of oversized texts, in bytes. The client's limit must not be higher.
const Large = 300 << 10

// envelopes lists messages that are not a valid response to any call.
var envelopes = []Case{
	{Name: "garbage", Message: `garbage`},
	{Name: "nothing"},
	{Name: "null", Message: `null`},
	{Name: "an empty batch", Message: `[]`},
	{Name: "a batch of nulls", Message: `[null,null]`},
	{Name: "a string", Message: `"text"`},
	{Name: "a number", Message: `5`},
	{Name: "cut off", Message: `{"jsonrpc":"2.0","id":$ID,"result":{`},
	{Name: "neither result nor error", Message: `{"jsonrpc":"2.0","id":$ID}`},
	{Name: "both", Message: `{"jsonrpc":"2.0","id":$ID,"result":{},"error":{"code":-32603,"message":"x"}}`},
	{Name: "a result twice", Message: `{"jsonrpc":"2.0","id":$ID,"result":{},"result":{"events":[]}}`},
	{Name: "id null", Message: `{"jsonrpc":"2.0","id":null,"result":{}}`},
	{Name: "id of another type", Message: `{"jsonrpc":"2.0","id":"$ID","result":{}}`},
	{Name: "id of nobody", Message: `{"jsonrpc":"2.0","id":99999$ID,"result":{}}`},
	{Name: "id an object", Message: `{"jsonrpc":"2.0","id":{"a":1},"result":{}}`},
	{Name: "id a fraction", Message: `{"jsonrpc":"2.0","id":$ID.5,"result":{}}`},
	{Name: "another version", Message: `{"jsonrpc":"1.0","id":$ID,"result":{}}`},
	{Name: "error a string", Message: `{"jsonrpc":"2.0","id":$ID,"error":"bad"}`},
	{Name: "error null", Message: `{"jsonrpc":"2.0","id":$ID,"error":null}`},
	{Name: "error empty", Message: `{"jsonrpc":"2.0","id":$ID,"error":{}}`},
	{Name: "code a string", Message: `{"jsonrpc":"2.0","id":$ID,"error":{"code":"x","message":5}}`},
	{Name: "code beyond numbers", Message: `{"jsonrpc":"2.0","id":$ID,"error":{"code":1e400,"message":"x"}}`},
	{Name: "controls in the message", Message: `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32603,"message":"\u001b[2J\u009b\u202e\nx"}}`},
	{Name: "data of another type", Message: `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32014,"message":"Unsupported","data":[1]}}`},
	{Name: "result null", Message: `{"jsonrpc":"2.0","id":$ID,"result":null}`},
	{Name: "result an array", Message: `{"jsonrpc":"2.0","id":$ID,"result":[]}`},
	{Name: "result a string", Message: `{"jsonrpc":"2.0","id":$ID,"result":"x"}`},
	{Name: "deep", Message: `{"jsonrpc":"2.0","id":$ID,"result":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`},
	{Name: "no UTF-8", Message: "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"\xff\x9b\":1}}"},
	{Name: "a mark before", Message: "\ufeff" + `{"jsonrpc":"2.0","id":$ID,"result":[]}`},
	{Name: "a request", Message: `{"jsonrpc":"2.0","id":$ID,"method":"sampling/createMessage","params":{}}`},
	{Name: "text after", Message: `{"jsonrpc":"2.0","id":$ID,"result":[]} and more`},
	{Name: "two answers", Message: `{"jsonrpc":"2.0","id":$ID,"result":[]}` + "\n" + `{"jsonrpc":"2.0","id":$ID,"result":[]}`},
	{Name: "zero bytes", Message: "\x00\x00{\x00}"},
	{Name: "too large", Message: `{"jsonrpc":"2.0","id":$ID,"result":{"x":"` + strings.Repeat("x", Large) + `"}}`, Says: "Options.MaxMessage"},
	{Name: "broken off", Message: `{"jsonrpc":"2.0"`, Abort: true},
}

// statuses lists HTTP responses that do not contain a JSON-RPC response.
var statuses = []Case{
	{Name: "a page", Status: 200, Type: "text/html; charset=utf-8", Message: "<html>\x1b]0;x\a", Says: "text/html"},
	{Name: "no type", Status: 200, Type: "\t", Message: `{}`},
	{Name: "accepted", Status: 202, Type: "text/plain"},
	{Name: "no content", Status: 204},
	{Name: "moved", Status: 301, Header: map[string]string{"Location": "/elsewhere"}},
	{Name: "bad request", Status: 400, Type: "text/plain", Message: "no\x1b[2J", Says: "400"},
	{Name: "bad request, nobody's id", Status: 400, Message: `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Server not initialized"}}`},
	{Name: "unauthorized", Status: 401, Says: "401"},
	{Name: "forbidden", Status: 403, Says: "403"},
	{Name: "not found", Status: 404, Says: "404"},
	{Name: "gone", Status: 410, Says: "410"},
	{Name: "teapot", Status: 418, Says: "418"},
	{Name: "too many, for ever", Status: 429, Header: map[string]string{"Retry-After": "99999999999999999999"}, Says: "429"},
	{Name: "too many, in the past", Status: 429, Header: map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:04:05 GMT"}, Says: "429"},
	{Name: "server error", Status: 500, Type: "text/plain", Message: "stack\x00", Says: "500"},
	{Name: "bad gateway", Status: 502, Type: "text/html", Message: "<html>", Says: "502"},
	{Name: "unavailable for a year", Status: 503, Header: map[string]string{"Retry-After": "31536000"}, Says: "503"},
	{Name: "length that lies", Header: map[string]string{"Content-Length": "5000"}, Message: `{}`},
	{Name: "packed garbage", Header: map[string]string{"Content-Encoding": "gzip"}, Message: "garbage"},
	{Name: "a stream of garbage", Type: "text/event-stream", Raw: "data: garbage\n\n", Says: "no JSON-RPC message"},
	{Name: "a stream of nothing", Type: "text/event-stream", Raw: "\n"},
	{Name: "a stream of fields", Type: "text/event-stream", Raw: "id: 1\nretry: 0\nevent: x\n: c\nunknown\n\n"},
	{Name: "a stream with carriage returns", Type: "text/event-stream", Raw: "data: {}\r\rdata: {}\r\r"},
	{Name: "a stream without an end of line", Type: "text/event-stream", Raw: "data: " + strings.Repeat("x", Large), Says: "Options.MaxMessage"},
	{Name: "a stream of one comment", Type: "text/event-stream", Raw: strings.Repeat(":\n", Large/2), Says: "Options.MaxMessage"},
}

// results lists invalid results by method.
var results = map[string][]Case{
	List: {
		{Name: "no events", Message: `{}`, Says: `no member "events"`},
		{Name: "events in capitals", Message: `{"EVENTS":[{"name":"tick","delivery":["poll"]}]}`, Says: `no member "events"`},
		{Name: "events twice", Message: `{"events":[],"events":[{"name":"tick","delivery":["poll"]}]}`, Says: "/events is a duplicate member"},
		{Name: "its name twice", Message: `{"events":[{"name":"tock","name":"tick","delivery":["poll"]}]}`},
		{Name: "events an object", Message: `{"events":{}}`},
		{Name: "events null", Message: `{"events":null}`},
		{Name: "other events", Message: `{"events":[null,1,"x",[],{},{"name":5},{"name":""}]}`},
		{Name: "one bad entry", Harmless: true,
			Message: `{"events":[{"name":5},{"name":"tick","delivery":["poll"]},{"name":"tick","delivery":["push"]}]}`},
		{Name: "its entry is bad", Message: `{"events":[{"name":"tick","delivery":"poll"}]}`, Says: "/delivery"},
		{Name: "a schema that is none", Message: `{"events":[{"name":"tick","delivery":["poll"],"inputSchema":"x"}]}`, Says: "/inputSchema"},
		{Name: "unknown modes", Message: `{"events":[{"name":"tick","delivery":["pigeon",""]}]}`, Says: "pigeon"},
		{Name: "no modes", Message: `{"events":[{"name":"tick"}]}`},
		{Name: "nextCursor a number", Message: `{"events":[],"nextCursor":5}`},
		{Name: "nextCursor too long", Message: `{"events":[],"nextCursor":"` + strings.Repeat("c", 70<<10) + `"}`, Says: "nextCursor has 71680 bytes"},
		{Name: "nextCursor again", Message: `{"events":[],"nextCursor":"again"}`, Says: "nextCursor comes again"},
		{Name: "pages without an end", Message: `{"events":[],"nextCursor":"page $N"}`, Says: "more than 1000 pages"},
		{Name: "entries without an end", Message: `{"events":[` + strings.Repeat(`{},`, 10_000) + `{}]}`, Says: "10001 entries"},
		{Name: "bytes without an end", Message: `{"events":[],"x":"` + strings.Repeat("x", 100<<10) + `","nextCursor":"$N"}`, Says: "the list, with"},
	},
	Poll: {
		{Name: "no events", Message: `{}`, Says: `no member "events"`},
		{Name: "something else", Message: `{"x":1}`, Says: `no member "events"`},
		{Name: "no events, a cursor", Message: `{"cursor":"c0"}`, Harmless: true},
		{Name: "no events, a cursor null", Message: `{"cursor":null}`, Harmless: true},
		{Name: "no events, a wait", Message: `{"nextPollMs":1000}`, Harmless: true},
		{Name: "events in capitals", Message: `{"EVENTS":[` + occurrence("x$N", "") + `],"CURSOR":"c0"}`, Says: `no member "events"`},
		{Name: "events twice", Message: `{"events":[],"cursor":"c0","events":[]}`, Says: "/events is a duplicate member"},
		{Name: "cursor twice", Message: `{"events":[],"cursor":"c0","cursor":"c1"}`, Says: "/cursor is a duplicate member"},
		{Name: "eventId twice", Message: `{"events":[{"eventId":"x$N","eventId":"y$N","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{}}],"cursor":"c0"}`, Says: "/eventId is a duplicate member"},
		{Name: "members in capitals", Message: `{"events":[{"EVENTID":"x$N","NAME":"tick","TIMESTAMP":"2026-11-20T08:00:00Z","DATA":{}}],"cursor":"c0"}`, Says: "/eventId is missing"},
		{Name: "data in capitals", Message: `{"events":[{"eventId":"x$N","name":"tick","timestamp":"2026-11-20T08:00:00Z","DATA":{}}],"cursor":"c0"}`, Says: "no data"},
		{Name: "no UTF-8 in an event", Message: "{\"events\":[{\"eventId\":\"x$N\xff\",\"name\":\"tick\",\"timestamp\":\"2026-11-20T08:00:00Z\",\"data\":{}}],\"cursor\":\"c0\"}", Says: "/eventId is not valid UTF-8"},
		{Name: "events null", Message: `{"events":null,"cursor":"c0"}`, Harmless: true},
		{Name: "events an object", Message: `{"events":{}}`},
		{Name: "bad events", Message: `{"events":[null,1,"x",[],{}],"cursor":"c0"}`},
		{Name: "data null", Message: `{"events":[{"eventId":"x$N","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":null}],"cursor":"c0"}`, Says: "data is null"},
		{Name: "data an array", Message: `{"events":[{"eventId":"x$N","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":[1]}],"cursor":"c0"}`, Says: "data is an array"},
		{Name: "no data", Message: `{"events":[{"eventId":"x$N","name":"tick","timestamp":"2026-11-20T08:00:00Z"}],"cursor":"c0"}`, Says: "no data"},
		{Name: "another event", Message: `{"events":[{"eventId":"x$N","name":"tock\u001b","timestamp":"2026-11-20T08:00:00Z","data":{}}],"cursor":"c0"}`, Says: "another event type"},
		{Name: "a time that is none", Message: `{"events":[{"eventId":"x$N","name":"tick","timestamp":"soon\u001b","data":{}}],"cursor":"c0"}`},
		{Name: "eventId a number", Message: `{"events":[{"eventId":5,"name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{}}],"cursor":"c0"}`},
		{Name: "eventId too long", Message: `{"events":[{"eventId":"` + strings.Repeat("e", 5000) + `$N","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{}}],"cursor":"c0"}`, Says: "/eventId has"},
		{Name: "cursor a number", Message: `{"events":[],"cursor":5}`},
		{Name: "cursor too long", Message: `{"events":[],"cursor":"` + strings.Repeat("c", 70<<10) + `"}`, Says: "the cursor has 71680 bytes"},
		{Name: "hasMore a string", Message: `{"events":[],"cursor":"c0","hasMore":"yes"}`},
		{Name: "more of nothing", Message: `{"events":[],"cursor":"c0","hasMore":true}`, Harmless: true},
		{Name: "more of nothing, further", Message: `{"events":[],"cursor":"c$N","hasMore":true}`, Says: "pages had nothing new"},
		{Name: "more of the same", Message: `{"events":[` + occurrence("same", "") + `],"cursor":"c0","hasMore":true}`, Harmless: true},
		{Name: "more of the same, further", Message: `{"events":[` + occurrence("same", "") + `],"cursor":"c$N","hasMore":true}`, Says: "pages had nothing new"},
		{Name: "more of what is none", Message: `{"events":[null],"cursor":"c$N","hasMore":true}`, Says: "pages had nothing new"},
		{Name: "wait for ever", Message: `{"events":[],"cursor":"c0","nextPollMs":1e18}`, Harmless: true},
		{Name: "wait beyond numbers", Message: `{"events":[],"cursor":"c0","nextPollMs":1e400}`, Harmless: true},
		{Name: "wait less than nothing", Message: `{"events":[],"cursor":"c0","nextPollMs":-1e18}`, Harmless: true},
		{Name: "wait a word", Message: `{"events":[],"cursor":"c0","nextPollMs":"long"}`, Harmless: true},
		{Name: "truncated, no cursor", Message: `{"events":[],"cursor":null,"truncated":true}`, Harmless: true},
		{Name: "truncated again and again", Message: `{"events":[],"cursor":"c$N","truncated":true}`, Harmless: true},
		{Name: "schema changed", Says: "Unsupported",
			Message: `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32014,"message":"Unsupported","data":{"feature":"payloadSchema","reason":"schema_changed"}}}`},
	},
	Stream: {
		{Name: "nothing but heartbeats", Frames: []string{notification("heartbeat", `{"cursor":"c0"}`)}, Hold: true},
		{Name: "silence", Frames: []string{notification("active", `{"cursor":"c0","truncated":false}`)}, Hold: true, Says: "two heartbeats"},
		{Name: "the end at once", Frames: []string{notification("active", `{"cursor":"c0"}`)}},
		{Name: "active that is none", Frames: []string{notification("active", `{"cursor":5}`)}},
		{Name: "active for another", Hold: true,
			Frames: []string{`{"jsonrpc":"2.0","method":"notifications/events/active","params":{"cursor":"c0","_meta":{"io.modelcontextprotocol/subscriptionId":"x"}}}`}},
		{Name: "params of other types", Hold: true, Frames: []string{
			`{"jsonrpc":"2.0","method":"notifications/events/active"}`, `{"jsonrpc":"2.0","method":"notifications/events/active","params":null}`,
			`{"jsonrpc":"2.0","method":"notifications/events/event","params":[1]}`, `{"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":"x"}`,
			`{"jsonrpc":"2.0","method":"notifications/events/terminated","params":5}`, `{"jsonrpc":"2.0","method":"notifications/events/"}`}},
		{Name: "notifications that want an answer", Frames: []string{`{"jsonrpc":"2.0","id":"x$N","method":"notifications/events/event","params":{}}`}, Hold: true},
		{Name: "bad events", Frames: []string{notification("active", `{"cursor":"c0"}`), notification("event", `{}`),
			notification("event", `{"eventId":5}`), notification("event", `{"eventId":"x$N","name":"tick","timestamp":"x","data":null,"cursor":5}`)}, Hold: true},
		{Name: "eventId twice", Hold: true, Says: "/eventId is a duplicate member", Frames: []string{notification("active", `{"cursor":"c0"}`),
			notification("event", `{"eventId":"x$N","eventId":"y$N","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{}}`)}},
		{Name: "members in capitals", Hold: true, Says: "/eventId is missing", Frames: []string{notification("active", `{"cursor":"c0"}`),
			notification("event", `{"EVENTID":"x$N","NAME":"tick","TIMESTAMP":"2026-11-20T08:00:00Z","DATA":{}}`)}},
		{Name: "active with a cursor twice", Frames: []string{notification("active", `{"cursor":"c0","cursor":"c1"}`)}},
		{Name: "params twice", Hold: true, HTTP: true, Says: "/params is a duplicate member", Frames: []string{notification("active", `{"cursor":"c0"}`),
			`{"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":{},"params":{"cursor":"c9"}}`}},
		{Name: "requests of its own", HTTP: true, Hold: true, Repeat: 100, Says: "a request, ping, on a stream of events",
			Frames: []string{notification("active", `{"cursor":"c0"}`), `{"jsonrpc":"2.0","id":"x$N","method":"ping"}`}},
		{Name: "another event", Frames: []string{notification("active", `{"cursor":"c0"}`),
			notification("event", `{"eventId":"x$N","name":"tock","timestamp":"2026-11-20T08:00:00Z","data":{},"cursor":"c0"}`)}, Hold: true, Says: "another event type"},
		{Name: "cursors too long", Frames: []string{notification("active", `{"cursor":"`+strings.Repeat("c", 70<<10)+`"}`)}, Hold: true, Says: "the cursor has 71680 bytes"},
		{Name: "active again and again", Frames: []string{notification("active", `{"cursor":"c$N"}`)}, Repeat: 20, Harmless: true},
		{Name: "gaps without an end", Frames: []string{notification("active", `{"cursor":"c$N","truncated":true}`)}, Repeat: 20, Harmless: true},
		{Name: "an error that is none", Frames: []string{notification("active", `{"cursor":"c0"}`), notification("error", `{"error":"x"}`), notification("error", `{}`)}, Harmless: true},
		{Name: "terminated without a reason", Frames: []string{notification("active", `{"cursor":"c0"}`), notification("terminated", `{}`)}, Says: "terminated"},
		{Name: "terminated by what is none", Frames: []string{notification("active", `{"cursor":"c0"}`), notification("terminated", `{"error":[1]}`)}, Says: "terminated"},
		{Name: "terminated with controls", Says: "terminated",
			Frames: []string{notification("active", `{"cursor":"c0"}`), notification("terminated", `{"error":{"code":-32012,"message":"\u001b[2J\u202e\n","data":{"reason":"\u009b"}}}`)}},
		{Name: "schema changed", Frames: []string{notification("active", `{"cursor":"c0"}`),
			notification("terminated", `{"error":{"code":-32014,"message":"Unsupported","data":{"feature":"payloadSchema","reason":"schema_changed"}}}`)}},
		{Name: "unknown notifications", Frames: []string{notification("of_a_later_revision", `{"x":1}`)}, Repeat: 50},
		{Name: "heartbeats in a flood", Frames: []string{notification("active", `{"cursor":"c0"}`), notification("heartbeat", `{"cursor":"c$N"}`)}, Repeat: 10, Harmless: true},
		{Name: "the result and then more", Frames: []string{notification("active", `{"cursor":"c0"}`), `{"jsonrpc":"2.0","id":$ID,"result":{}}`, notification("event", occurrence("late", ""))}, Harmless: true},
	},
	Subscribe: {
		{Name: "no id", Message: `{"refreshBefore":"2100-01-01T00:00:00Z"}`, Says: "the id has 0 bytes"},
		{Name: "id in capitals", Message: `{"ID":"sub_1"}`, Says: "the id has 0 bytes"},
		{Name: "id twice", Message: `{"id":"sub_2","id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z"}`, Says: "/id is a duplicate member"},
		{Name: "id a number", Message: `{"id":5}`},
		{Name: "id too long", Message: `{"id":"` + strings.Repeat("s", 300) + `"}`, Says: "the id has 300 bytes"},
		{Name: "no refreshBefore", Message: `{"id":"sub_1"}`, Harmless: true},
		{Name: "refreshBefore a number", Message: `{"id":"sub_1","refreshBefore":5}`, Harmless: true},
		{Name: "refreshBefore a word", Message: `{"id":"sub_1","refreshBefore":"soon"}`, Harmless: true},
		{Name: "refreshBefore now", Message: `{"id":"sub_1","refreshBefore":"$NOW"}`, Says: "too short"},
		{Name: "refreshBefore long ago", Message: `{"id":"sub_1","refreshBefore":"0001-01-02T00:00:00Z"}`, Harmless: true},
		{Name: "refreshBefore beyond time", Message: `{"id":"sub_1","refreshBefore":"9999-12-31T23:59:59Z"}`, Harmless: true},
		{Name: "no expiry unasked", Message: `{"id":"sub_1","refreshBefore":null}`, Harmless: true},
		{Name: "cursor a number", Message: `{"id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z","cursor":5}`},
		{Name: "cursor too long", Message: `{"id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z","cursor":"` + strings.Repeat("c", 70<<10) + `"}`, Says: "the cursor has"},
		{Name: "truncated a word", Message: `{"id":"sub_1","truncated":"yes"}`},
		{Name: "a status that is none", Message: `{"id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z","deliveryStatus":[5]}`, Harmless: true},
		{Name: "a status of other types", Harmless: true,
			Message: `{"id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z","deliveryStatus":{"active":"no","lastError":5,"failedSince":[],"retryAfterMs":1e400}}`},
		{Name: "abandoned again and again", Harmless: true,
			Message: `{"id":"sub_1","refreshBefore":"2100-01-01T00:00:00Z","cursor":"c0","deliveryStatus":{"active":false,"failedSince":"2000-01-01T00:00:00Z"}}`},
		{Name: "the challenge failed", Message: `{"jsonrpc":"2.0","id":$ID,"error":{"code":-32015,"message":"CallbackEndpointError","data":{"reason":"\u001b"}}}`, Says: "CallbackEndpointError"},
	},
}

// Cases returns all cases.
func Cases() []Case {
	var all []Case
	for _, method := range []string{List, Poll, Stream, Subscribe} {
		for _, c := range envelopes {
			c.Method = method
			all = append(all, c)
		}
		for _, c := range statuses {
			c.Method, c.HTTP = method, true
			all = append(all, c)
		}
		for _, c := range results[method] {
			c.Method = method
			if c.Message != "" && !strings.Contains(c.Message, `"jsonrpc"`) {
				c.Message = `{"jsonrpc":"2.0","id":$ID,"result":` + c.Message + `}`
			}
			all = append(all, c)
		}
	}
	return all
}

// Bodies lists signed webhook bodies that are not messages, or are not for this subscription. A client must not treat
// any of them as an occurrence.
var Bodies = []string{
	``, ` `, `null`, `[]`, `5`, `"x"`, `{}`, `{`, "\xff", "\x00", `{"type":null}`, `{"type":5}`, `{"type":""}`, `{"type":[]}`,
	`{"eventId":"x"}`, `{"eventId":5,"name":"tick","timestamp":"t","data":{}}`, `{"eventId":null,"name":"tick","timestamp":"t","data":{}}`,
	`{"eventId":"","name":"tick","timestamp":"t","data":{}}`, "{\"eventId\":\"\xff\",\"name\":\"tick\",\"timestamp\":\"t\",\"data\":{}}",
	`{"eventId":"x","name":"tick","timestamp":"t","data":null}`, `{"eventId":"x","name":"tick","timestamp":"t","data":[]}`,
	`{"eventId":"x","name":"tick","timestamp":"t"}`, `{"eventId":"x","name":5,"timestamp":"t","data":{}}`,
	`{"eventId":"x","eventId":"y","name":"tick","timestamp":"t","data":{}}`, `{"EventId":"x","name":"tick","timestamp":"t","data":{}}`,
	`{"eventId":"x","name":"tick","timestamp":"t","data":{}} {}`, `{"eventId":"` + strings.Repeat("x", 257) + `","name":"tick","timestamp":"t","data":{}}`,
	`{"type":"gap","cursor":5}`, `{"type":"terminated","error":"x"}`, `{"type":"verification"}`, `{"type":"verification","challenge":5}`,
	`{"type":"verification","challenge":"` + strings.Repeat("x", 2000) + `"}`,
	`{"type":"later","eventId":"x","name":"tick","timestamp":"t","data":{}}`, `{"type":"verification","challenge":"c","eventId":"x"}`,
	"\ufeff" + `{"eventId":"x","name":"tick","timestamp":"t","data":{}}`, strings.Repeat(`{"a":`, 50_000), strings.Repeat("[", 100_000),
}
