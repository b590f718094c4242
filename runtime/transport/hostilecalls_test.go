package transport

import (
	"fmt"
	"strings"
)

// A hostileMessage is an invalid message and its expected response.
type hostileMessage struct {
	name, text string
	code       int64
	id         string // of the response, as JSON
}

// hostileMessages returns invalid JSON-RPC messages. They contain no line breaks, so each can be sent as one line.
func hostileMessages() []hostileMessage {
	const parse, invalid = -32700, -32600
	call := func(id, more string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"events/poll","params":{"name":"tick"}` + more + `}`
	}
	nest := func(open, shut string, n int) string {
		return `{"jsonrpc":"2.0","id":1,"method":"events/poll","params":{"x":` + strings.Repeat(open, n) + "1" + strings.Repeat(shut, n) + `}}`
	}
	valid := call(`1`, ``)
	rows := []hostileMessage{
		{"id object", call(`{}`, ``), invalid, "null"},
		{"id array", call(`[1]`, ``), invalid, "null"},
		{"id true", call(`true`, ``), invalid, "null"},
		{"id null", call(`null`, ``), invalid, "null"},
		{"id null of another method", `{"jsonrpc":"2.0","id":null,"method":"tools/list"}`, invalid, "null"},
		{"id of 1025 bytes", call(`"`+strings.Repeat("x", 1023)+`"`, ``), invalid, "null"},
		{"number of 2000 digits as id", call(strings.Repeat("9", 2000), ``), invalid, "null"},
		{"id twice", call(`1`, `,"id":2`), invalid, "null"},
		{"id twice, one escaped", call(`1`, `,"i\u0064":2`), invalid, "null"},
		{"method twice", call(`"m"`, `,"method":"ping"`), invalid, `"m"`},
		{"method twice, one escaped", call(`"m"`, `,"m\u0065thod":"ping"`), invalid, `"m"`},
		{"params twice", call(`1.0`, `,"params":{}`), invalid, "1.0"},
		{"jsonrpc twice", call(`"j"`, `,"jsonrpc":"2.0"`), invalid, `"j"`},
		{"unknown member twice", call(`"u"`, `,"\u001b[2J":1,"\u001b[2J":2`), invalid, `"u"`},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":"a","method":"events/list"}`, invalid, `"a"`},
		{"jsonrpc a number", `{"jsonrpc":2.0,"id":"a","method":"events/list"}`, invalid, `"a"`},
		{"no jsonrpc", `{"id":"a","method":"events/list"}`, invalid, `"a"`},
		{"method null", `{"jsonrpc":"2.0","id":"a","method":null}`, invalid, `"a"`},
		{"method a number", `{"jsonrpc":"2.0","id":"a","method":7}`, invalid, `"a"`},
		{"method an object", `{"jsonrpc":"2.0","id":"a","method":{"events":"list"}}`, invalid, `"a"`},
		{"neither request nor response", `{"jsonrpc":"2.0","id":1}`, invalid, "null"},
		{"result without id", `{"jsonrpc":"2.0","result":{}}`, invalid, "null"},
		{"error no object", `{"jsonrpc":"2.0","id":1,"error":5}`, invalid, "null"},
		{"empty object", `{}`, invalid, "null"},
		{"empty batch", `[]`, invalid, "null"},
		{"batch", `[` + valid + `]`, invalid, "null"},
		{"bytes behind a batch", `[` + valid + `]x`, parse, "null"},
		{"open batch", `[` + valid, parse, "null"},
		{"two values", valid + valid, parse, "null"},
		{"brace too many", valid + `}`, parse, "null"},
		{"text behind", valid + ` and more`, parse, "null"},
		{"byte order mark", "\ufeff" + valid, parse, "null"},
		{"UTF-16", "\x00{\x00}", parse, "null"},
		{"1001 arrays", nest(`[`, `]`, 1001), parse, "null"},
		{"100000 objects", nest(`{"a":`, `}`, 100_000), parse, "null"},
		{"100000 open arrays", strings.Repeat("[", 100_000), parse, "null"},
	}
	for _, text := range []string{`null`, `true`, `0`, `-1.5e3`, `""`, `"events/list"`} {
		rows = append(rows, hostileMessage{"value " + text, text, invalid, "null"})
	}
	for _, text := range []string{`{`, `}`, `[`, `]`, `"`, `garbage`, `GET / HTTP/1.1`, `<xml/>`, `{"jsonrpc"}`, `{jsonrpc:"2.0"}`, `{'jsonrpc':'2.0'}`,
		`{"jsonrpc":"2.0",}`, `{"jsonrpc":"2.0" "id":1}`, `{/**/}`, `// x`, `NaN`, `{"id":01}`, `{"id":+1}`, `{"id":.5}`, `{"id":1.}`, `{"id":1e}`, `{"id":0x1}`,
		`{"id":"\x"}`, `{"id":"\u12"}`, "{\"id\":\"\t\"}", "{\"id\":\"\x00\"}", "\x00", "\x1b[2J", `undefined`, `{"a":1}}`} {
		rows = append(rows, hostileMessage{"text " + text, text, parse, "null"})
	}
	for name, bytes := range map[string]string{"overlong": "\xc0\x80", "surrogate": "\xed\xa0\x80", "beyond Unicode": "\xf5\x80\x80\x80", "half a character": "\xe2\x82", "latin-1": "\xe9"} {
		rows = append(rows, hostileMessage{"UTF-8 " + name, `{"jsonrpc":"2.0","id":1,"method":"` + bytes + `"}`, parse, "null"})
	}
	return rows
}

// A hostileCall is a call to an extension method with params that must be rejected.
type hostileCall struct {
	name, method string
	params       string // without the closing brace, so that a carrier can append members
	code         int64
}

// hostileCalls returns well-formed calls with invalid params. "tick" is the name of a registered event type.
func hostileCalls() []hostileCall {
	const invalidParams, notFound = -32602, -32011
	var rows []hostileCall
	for _, method := range []string{"events/poll", "events/stream"} {
		for params, code := range map[string]int64{
			`{"x":1`:                       invalidParams,
			`{"name":null`:                 invalidParams,
			`{"name":{}`:                   invalidParams,
			`{"name":"tick","name":"tick"`: invalidParams,
			`{"Name":"tick"`:               invalidParams,
			`{"name":"\ud800"`:             invalidParams,
			`{"name":""`:                   notFound,
			`{"name":"tick\u0000"`:         notFound,
			`{"name":"` + strings.Repeat("x", 20_000) + `"`:            notFound,
			`{"name":"tick","arguments":[]`:                            invalidParams,
			`{"name":"tick","arguments":"x"`:                           invalidParams,
			`{"name":"tick","arguments":{"channel":1}`:                 invalidParams,
			`{"name":"tick","arguments":{"nosuch":1}`:                  invalidParams,
			`{"name":"tick","arguments":{"\u001b[2J\u202e":1}`:         invalidParams,
			`{"name":"tick","arguments":{"channel":"a","channel":"b"}`: invalidParams,
			`{"name":"tick","arguments":{"channel":"\udfff"}`:          invalidParams,
			`{"name":"tick","cursor":5`:                                invalidParams,
			`{"name":"tick","cursor":{}`:                               invalidParams,
			`{"name":"tick","maxAgeMs":-1`:                             invalidParams,
			`{"name":"tick","maxAgeMs":"1"`:                            invalidParams,
			`{"name":"tick","maxAgeMs":1.5`:                            invalidParams,
		} {
			rows = append(rows, hostileCall{params[:min(len(params), 60)], method, params, code})
		}
	}
	for _, method := range []string{"events/list", "events/poll", "events/stream", "events/subscribe", "events/unsubscribe"} {
		rows = append(rows, hostileCall{"40000 members", method, `{"name":"tick"` + manyMembers(40_000), invalidParams},
			hostileCall{"40000 members in the arguments", method, `{"name":"tick","arguments":{` + manyMembers(40_000)[1:] + `}`, invalidParams},
			hostileCall{"one long member", method, `{"name":"tick","x":"` + strings.Repeat("x", 256<<10) + `"`, invalidParams})
	}
	for _, params := range []string{`"maxEvents":0`, `"maxEvents":-1`, `"maxEvents":[]`, `"maxEvents":0.5`, `"timeoutMs":-1`, `"timeoutMs":"x"`, `"timeoutMs":0.1`} {
		rows = append(rows, hostileCall{params, "events/poll", `{"name":"tick",` + params, invalidParams})
	}
	return append(rows, hostileCall{"cursor of no list", "events/list", `{"cursor":"x"`, invalidParams}, hostileCall{"cursor a number", "events/list", `{"cursor":1`, invalidParams})
}

// manyMembers returns n object members as JSON text.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()
}
