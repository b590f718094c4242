package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// P7: one rule for all that a peer sends.
func TestDecode(t *testing.T) {
	for _, tt := range []struct{ doc, wrong string }{
		{`{"eventId":"e","name":"n","timestamp":"t","data":{},"later":1}`, ""},
		{`null`, ""},
		{`{"eventId":"e","eventId":"e"}`, "/eventId is a duplicate member"},
		{`{"eventId":"e","data":{"a":{"b":1,"b":2}}}`, "/data/a/b is a duplicate member"},
		{`{"later":1,"later":2}`, "/later is a duplicate member"},
		{"{\"eventId\":\"\xff\"}", "/eventId is not valid UTF-8"},
		{`{"eventId":5}`, "/eventId cannot be this number"},
		{`{"eventId":["\u202e"]}`, "/eventId cannot be an array"},
		{`[]`, "it cannot be an array"},
		{`{"eventId":"e"} {}`, "it is not valid JSON"},
		{``, "it is not valid JSON"},
	} {
		var o Occurrence
		err := Decode([]byte(tt.doc), &o)
		if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || err.Error() != tt.wrong) {
			t.Errorf("%s: %v, want %s", tt.doc, err, tt.wrong)
		}
	}
	var o Occurrence
	if err := Decode([]byte(`{"EVENTID":"a","eventID":"b","Data":{}}`), &o); err != nil || o.EventID != "" || o.Data != nil {
		t.Errorf("%v %+v", err, o)
	}
}

// P7: what is wrong with one member, or within it, does not hide the others.
func TestDecodeMembers(t *testing.T) {
	doc := "{\"a\":[{\"x\":1,\"x\":2},\"\xff\", null ],\"b\":null,\"c\":5.0,\"\u202e\":1}"
	m, err := DecodeMembers([]byte(doc))
	if err != nil || len(m) != 4 || string(m["b"]) != "null" {
		t.Fatal(m, err)
	}
	all, err := m.Elements("a")
	if err != nil || len(all) != 3 || string(all[0]) != `{"x":1,"x":2}` || string(all[2]) != "null" {
		t.Errorf("%q %v", all, err)
	}
	for _, name := range []string{"b", "absent"} {
		if all, err := m.Elements(name); all != nil || err != nil {
			t.Error(name, all, err)
		}
	}
	if _, err := m.Elements("c"); err == nil || err.Error() != "/c is not an array" {
		t.Error(err)
	}
	text := "as before"
	if err := m.Read("absent", &text); err != nil || text != "as before" {
		t.Error(text, err)
	}
	if err := m.Read("c", &text); err == nil || err.Error() != "/c cannot be this number" {
		t.Error(err)
	}
	for doc, wrong := range map[string]string{
		`{"a":1,"a":2}`: "/a is a duplicate member", "{\"\u202e\":1,\"\u202e\":2}": `/\u202e is a duplicate member`,
		`[]`: "not an object", `null`: "not an object", ``: "not an object", `x`: "not an object",
		`{`: "not valid JSON", `{"a"`: "not valid JSON", `{"a":`: "not valid JSON", `{"a":}`: "not valid JSON", `{"a":1,}`: "not valid JSON",
		`{"a":1} x`: "not valid JSON", `{"a":{]}`: "not valid JSON", `{"a":[}}`: "not valid JSON", strings.Repeat(`{"a":`, 20_000): "not valid JSON",
	} {
		if m, err := DecodeMembers([]byte(doc)); err == nil || err.Error() != wrong {
			t.Errorf("%.40s: %v %v, want %s", doc, m, err, wrong)
		}
	}
	for _, list := range []string{`[1,]`, `[1`, `[}`, `[[}]`} {
		if all, err := (Members{"a": json.RawMessage(list)}).Elements("a"); err == nil {
			t.Errorf("%s: %q", list, all)
		}
	}
	if got := FirstMember([]byte(`{"b":1,"a":{"x":1,"x":2},"a":3}`), "a"); string(got) != `{"x":1,"x":2}` {
		t.Errorf("%s", got)
	}
	for _, doc := range []string{``, `[]`, `{}`, `{"A":1}`, `{"b":`} {
		if got := FirstMember([]byte(doc), "a"); got != nil {
			t.Errorf("%s: %s", doc, got)
		}
	}
}
