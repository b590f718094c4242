package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A lone surrogate is read as U+FFFD in data and in messages, not in identifiers and not as raw bytes; the body stays as signed.
func TestParseLoneSurrogates(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"eventId":"1","name":"n","timestamp":"t","data":{"a":"\ud83d"},"cursor":null}`:            true,
		`{"type":"terminated","error":{"code":-32011,"message":"cut \ud83d"}}`:                      true,
		`{"eventId":"\ud83d","name":"n","timestamp":"t","data":{},"cursor":null}`:                   false,
		`{"eventId":"1","name":"n","timestamp":"t","data":{},"cursor":"\ud83d"}`:                    false,
		`{"type":"gap","cursor":"\ud83d"}`:                                                          false,
		"{\"eventId\":\"1\",\"timestamp\":\"t\",\"data\":{\"a\":\"\xed\xa0\xbd\"},\"cursor\":null}": false,
	} {
		d, err := ParseDelivery(Stamp{ID: "1"}, []byte(body))
		if (err == nil) != ok || string(d.Body) != body {
			t.Errorf("%s: %v, %s", body, err, d.Body)
		}
		text := string(d.Occurrence.Data)
		if d.Envelope.Error != nil {
			text = d.Envelope.Error.Message
		}
		if ok && !strings.Contains(text, "\ufffd") && !strings.Contains(text, `\ufffd`) {
			t.Errorf("%s: %s", body, text)
		}
	}
}

// TestHOOK1Bodies is what is posted, byte for byte (HOOK-1, HOOK-7, VER-2).
func TestHOOK1Bodies(t *testing.T) {
	cursor := "AQJr0w"
	o := Occurrence{EventID: "evt_1", Name: "incident.created", Timestamp: "2026-11-20T08:00:00Z", Data: json.RawMessage(`{"a":"<&>"}`)}
	meta := o
	meta.Meta = json.RawMessage(`{"k":1}`)
	for want, build := range map[string]func() ([]byte, error){
		`{"eventId":"evt_1","name":"incident.created","timestamp":"2026-11-20T08:00:00Z","data":{"a":"<&>"},"cursor":"AQJr0w"}`:             func() ([]byte, error) { return o.Body(&cursor) },
		`{"eventId":"evt_1","name":"incident.created","timestamp":"2026-11-20T08:00:00Z","data":{"a":"<&>"},"cursor":null}`:                 func() ([]byte, error) { return o.Body(nil) },
		`{"eventId":"evt_1","name":"incident.created","timestamp":"2026-11-20T08:00:00Z","data":{"a":"<&>"},"cursor":null,"_meta":{"k":1}}`: func() ([]byte, error) { return meta.Body(nil) },
		`{"type":"gap","cursor":"AQJr0w"}`:        func() ([]byte, error) { return Gap(&cursor) },
		`{"type":"gap","cursor":null}`:            func() ([]byte, error) { return Gap(nil) },
		`{"type":"verification","challenge":"n"}`: func() ([]byte, error) { return Verification("n") },
		`{"type":"terminated","error":{"code":-32011,"message":"NotFound","data":{"kind":"event"}}}`: func() ([]byte, error) {
			return Terminated(ErrorObject{Code: -32011, Message: "NotFound", Data: json.RawMessage(`{"kind":"event"}`)})
		},
	} {
		if got, err := build(); err != nil || string(got) != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
	if _, err := Verification("\xff"); err == nil {
		t.Error("invalid UTF-8 was written")
	}
	if _, err := (Occurrence{Name: "\xff", Data: o.Data}).Body(nil); err == nil {
		t.Error("invalid UTF-8 was written")
	}
}

// TestHOOK1Bound lets through the largest payload that an emit may have, whatever surrounds it,
// and no body above 256 KiB (HOOK-1).
func TestHOOK1Bound(t *testing.T) {
	payload := func(n int) json.RawMessage { return json.RawMessage(`{"a":"` + strings.Repeat("x", n-8) + `"}`) }
	cursor := strings.Repeat("c", 1024)
	o := Occurrence{EventID: strings.Repeat("e", wire.MaxEventID), Name: strings.Repeat("n", wire.MaxEventName), Timestamp: "2026-11-20T08:00:00.123456789Z", Data: payload(wire.MaxPayload)}
	if b, err := o.Body(&cursor); err != nil || len(b) > wire.MaxBody {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	o.Data = payload(wire.MaxBody)
	if _, err := o.Body(nil); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if _, err := Terminated(ErrorObject{Message: strings.Repeat("x", wire.MaxBody)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

// TestHOOK1RoundTrip reads what is written, whatever is in it.
func TestHOOK1RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data, err := json.Marshal(map[string]string{"a": rapid.String().Draw(t, "data")})
		if err != nil {
			t.Fatal(err)
		}
		o := Occurrence{EventID: rapid.StringMatching(`[!-~]{1,40}`).Draw(t, "id"), Name: "n" + rapid.String().Draw(t, "name"), Timestamp: "t", Data: data}
		cursor := rapid.Ptr(rapid.String(), true).Draw(t, "cursor")
		b, err := o.Body(cursor)
		if err != nil || !json.Valid(b) {
			t.Fatalf("%s, %v", b, err)
		}
		d, err := ParseDelivery(Stamp{ID: o.EventID, Time: time.Now()}, b)
		got := d.Occurrence
		if err != nil || d.Type != "" || got.EventID != o.EventID || got.Name != o.Name || !bytes.Equal(got.Data, o.Data) {
			t.Fatalf("%+v, %v", d, err)
		}
		if c := d.Cursor(); (c == nil) != (cursor == nil) || c != nil && *c != *cursor {
			t.Fatalf("cursor %v, want %v", c, cursor)
		}
	})
}

// TestCLI5ParseBody lists what is a message and what is not, however well it is signed. The top-level
// type tells an envelope before anything else, and eventId and webhook-id may differ (CLI-5, D10).
func TestCLI5ParseBody(t *testing.T) {
	const good = `{"eventId":"evt_1","name":"n","timestamp":"t","data":{}}`
	for body, kind := range map[string]string{
		good: "",
		`{"eventId":"evt_1","name":"n","timestamp":"t","data":{},"type":"gap"}`:                  "gap",
		`{"type":"terminated","eventId":"evt_1","error":{"code":-1,"message":"m"}}`:              "terminated",
		`{"type":"verification","challenge":"a","eventId":5}`:                                    "verification",
		`{"eventId":"evt_1","name":"n","timestamp":"t","data":{},"type":"later"}`:                "later",
		`{"eventId":"evt_1","name":"n","timestamp":"t","data":{},"type":null}`:                   "",
		`{"eventId":"evt_1","name":"n","timestamp":"t","data":{},"type":""}`:                     "",
		`{"eventId":"evt_1","name":"n","timestamp":"t","data":{},"type":5,"error":1,"Data":[1]}`: "",
		`{"type":"gap","cursor":null}`:                                                           "gap",
		`{"type":"gap","unknown":[1]}`:                                                           "gap",
		`{"type":"terminated","error":{"code":-1,"message":"m"}}`:                                "terminated",
		`{"type":"of_a_later_revision","cursor":{"not":"a string"}}`:                             "of_a_later_revision",
		`{"type":"verification","challenge":"a"}`:                                                "verification",
		`{"eventId":"evt_2","name":"n","timestamp":"t","data":{}}`:                               "",
		`{"eventId":"","name":"n","timestamp":"t","data":{}}`:                                    "error",
		`{"eventId":"a b ü","name":"n","timestamp":"t","data":{}}`:                               "",
		`{"eventId":null,"name":"n","timestamp":"t","data":{}}`:                                  "error",
		`{"eventId":"evt_1","name":"n","timestamp":"t","data":[]}`:                               "error",
		`{"eventId":"evt_1","name":"n","timestamp":"t"}`:                                         "error",
		`{"eventId":"evt_1","timestamp":"t","data":{}}`:                                          "",
		`{"eventId":"evt_1","name":"n","data":{}}`:                                               "error",
		`{"eventId":"evt_1","eventId":"evt_1","name":"n"}`:                                       "error",
		`{"eventid":"evt_1","name":"n","timestamp":"t","data":{}}`:                               "error",
		`{"eventId":1,"name":"n","timestamp":"t","data":{}}`:                                     "error",
		`{"type":5}`:                             "error",
		`{"type":""}`:                            "error",
		`{"type":null}`:                          "error",
		`{"type":"gap","cursor":5}`:              "error",
		`{"type":"terminated","error":"denied"}`: "error",
		`{"type":"gap","a":"` + "\xff" + `"}`:    "error",
		`{}`:                                     "error",
		`[]`:                                     "error",
		`null`:                                   "error",
		``:                                       "error",
		good + good:                              "error",
	} {
		d, err := ParseDelivery(Stamp{ID: "evt_1"}, []byte(body))
		if (err != nil) != (kind == "error") || err == nil && d.Type != kind {
			t.Errorf("%s: %q, %v", body, d.Type, err)
		}
	}
}
