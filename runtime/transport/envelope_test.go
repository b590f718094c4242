package transport

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What parseEnvelope accepts, the SDK accepts and understands in the same way. An id that survives is the same to it.
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
		if !isPreservedID(env.id) {
			return
		}
		msg, err := jsonrpc.DecodeMessage([]byte(text))
		if err != nil {
			t.Fatalf("the SDK refuses %q: %v", text, err)
		}
		req, ok := msg.(*jsonrpc.Request)
		if !ok || req.Method != env.method || string(req.Params) != string(env.params) || !req.IsCall() {
			t.Fatalf("%q is %+v to the SDK, %+v here", text, req, env)
		}
		// CAP-6: the id comes back as the same value.
		answer, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: req.ID, Result: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if back, _ := parseEnvelope(answer); idKey(back.id) != idKey(env.id) {
			t.Fatalf("%q is answered by %q", text, answer)
		}
	})
}
