package transport

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What parseEnvelope accepts, the SDK accepts and understands in the same way; the direct route
// and the tickets rest on that.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":7,"method":"events/poll","params":{"name":"tick","_meta":{"a":1}}}`,
		` {"params":{},"method":"events\u002fpoll","id":"a","jsonrpc":"2.0"} `,
		`{"jsonrpc":"2.0","id":1e400,"method":"a"}`,
		`{"jsonrpc":"2.0","id":-0.0,"method":"a","params":null}`,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}`,
		`{"jsonrpc":"2.0","id":null,"method":"a"}`,
		`{"jsonrpc":"2.0","id":{},"method":"a"}`,
		`{"jsonrpc":"2.0","id":1,"method":5}`,
		`{"jsonrpc":"2.0","id":1,"method":"\ud800"}`,
		`{"jsonrpc":"2.0","id":1,"Method":"a"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}",
		`[]`, `{`, ``, `{"jsonrpc":"2.0"}{}`,
		`{"jsonrpc":"2.0","id":1,"method":"a","params":` + strings.Repeat("[", 999) + strings.Repeat("]", 999) + `}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		env, ok := parseEnvelope([]byte(text))
		if !ok || !env.isCall() {
			return
		}
		data, aliased := withAlias([]byte(text), env)
		msg, err := jsonrpc.DecodeMessage(data)
		if err != nil {
			t.Fatalf("the SDK refuses %q: %v", data, err)
		}
		req, ok := msg.(*jsonrpc.Request)
		if !ok || req.Method != env.method || string(req.Params) != string(env.params) || !req.IsCall() {
			t.Fatalf("%q is %+v to the SDK, %+v here", text, req, env)
		}
		// CAP-6: what the SDK writes gets the id's own bytes back.
		answer, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: req.ID, Result: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if aliased {
			answer = restoreIDs(answer)
		}
		if want := `{"jsonrpc":"2.0","id":` + string(env.id) + `,"result":{}}`; string(answer) != want {
			t.Fatalf("%q is answered by %q", text, answer)
		}
	})
}

// Replacing a member leaves every other byte alone.
func TestReplaceMember(t *testing.T) {
	for _, row := range [][4]string{
		{`{"a":1, "id" : 2.0 ,"b":[3]}`, `id`, `"x"`, `{"a":1, "id" : "x" ,"b":[3]}`},
		{`{"a":1}`, `id`, `2`, `{"a":1}`},
		{`{"\u0069d":1}`, `id`, `2`, `{"\u0069d":2}`},
		{`[1]`, `id`, `2`, `[1]`},
	} {
		if got := string(replaceMember(json.RawMessage(row[0]), row[1], json.RawMessage(row[2]))); got != row[3] {
			t.Errorf("%s: %s, want %s", row[0], got, row[3])
		}
	}
}
