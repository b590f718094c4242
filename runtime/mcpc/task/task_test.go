package task_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// MCPC-MSG-1: seven members, nulls written, and read back as they were.
func TestMessage(t *testing.T) {
	for want, m := range map[string]task.Message{
		`{"type":"task","event":"update","session_id":"s","task_id":"t","tool_name":"n","result":{"a":"<&>"},"protocol":"mcpc"}`: {
			Type: "task", Event: "update", SessionID: "s", TaskID: "t", ToolName: "n", Result: json.RawMessage(`{"a":"<&>"}`)},
		`{"type":"server_event","event":"alert","session_id":"s","task_id":null,"tool_name":null,"result":null,"protocol":"mcpc"}`: {
			Type: "server_event", Event: "alert", SessionID: "s"},
	} {
		b, err := m.MarshalJSON()
		if err != nil || string(b) != want {
			t.Errorf("%s, %v", b, err)
		}
		back, ok, err := task.Parse(string(b))
		if err != nil || !ok || back.Event != m.Event || string(back.Result) != string(m.Result) || back.TaskID != m.TaskID || m.Check() != nil {
			t.Errorf("%+v, %v, %v", back, ok, err)
		}
	}
}

// MCPC-MSG-2: what a message needs, when sent and when received.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		text           string
		received, sent bool
	}{
		{`{"type":"task","event":"created","session_id":"s","task_id":"t","tool_name":"n","result":1,"protocol":"mcpc"}`, true, true},
		{`{"type":"task","event":"done","session_id":"s","task_id":"t","tool_name":"n","result":1,"protocol":"mcpc"}`, false, false},
		{`{"type":"task","event":"failed","session_id":null,"task_id":"t","tool_name":"n","result":1,"protocol":"mcpc"}`, false, false},
		{`{"type":"task","event":"failed","session_id":"s","task_id":null,"tool_name":"n","result":1,"protocol":"mcpc"}`, false, false},
		{`{"type":"task","event":"failed","session_id":"s","task_id":"t","result":1,"protocol":"mcpc"}`, false, false},
		{`{"type":"server_event","event":"any thing","session_id":null,"result":1,"protocol":"mcpc"}`, true, false},
		{`{"type":"server_event","event":"","session_id":"s","protocol":"mcpc"}`, false, false},
		{`{"type":"other","event":"x","session_id":"s","protocol":"mcpc"}`, false, false},
		{`{"type":5,"protocol":"mcpc"}`, false, false},
	} {
		m, ok, err := task.Parse(c.text)
		if ok != c.received || (err == nil) != c.received || err != nil && !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%s: %v, %v", c.text, ok, err)
		}
		if ok && (m.Check() == nil) != c.sent {
			t.Errorf("sending %s: %v", c.text, m.Check())
		}
	}
	for _, text := range []string{``, `hello`, `{"protocol":"other"}`, `{"protocol":5}`, `[{"protocol":"mcpc"}]`, `{"a":"mcpc"`, `{"result":{"protocol":"mcpc"}}`} {
		if _, ok, err := task.Parse(text); ok || err != nil {
			t.Errorf("%q was not left alone: %v", text, err)
		}
	}
}
