package ledger

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

func at(second int) time.Time { return time.Unix(1_800_000_000+int64(second), 5).UTC() }

// values has a value of each family in which every field is set, with a function that decodes it.
var values = map[string]struct {
	value  store.Value
	decode func(r store.Record) (any, error)
}{
	"sub": {&subscriptionRecord{Subscription: Subscription{
		ID: "sub_1", Principal: "ann<&>", URL: "https://receiver.example/a", Shard: Shard{Topic: "ticket.created", Number: 3},
		Generation: 1<<63 + 5, Arguments: json.RawMessage(`{"severity":"<P1>"}`), Schema: "f1",
		Secrets: []store.Secret{{Key: []byte("key"), NotAfter: at(9)}}, Codes: 1, CreatedAt: at(0), RefreshedAt: at(1), ExpiresAt: at(2),
		NotBefore: at(3), Truncated: true, PausedAt: at(4), ResumedAt: at(5),
		Rewind: &Rewind{Number: 7, Epoch: 8, To: 9, Cursor: "c", Until: 10, Canceled: true, Truncated: true, Actor: "olga"},
		Again:  []Again{{Number: 1, EventID: "evt_1", Seen: at(6), Actor: "olga"}}, Gap: 2,
		Ended: &wire.ErrorObject{Code: -32012, Message: "Forbidden", Data: json.RawMessage(`{"a":1}`)}, Counted: [2]int{3, 15},
	}, Sealed: []byte("sealed")}, decoder[subscriptionRecord]},
	"pro": {&Status{Generation: 1<<63 + 5,
		Progress: store.Progress{Epoch: 1<<64 - 1, Base: 7, Settled: []store.Span{{From: 9, To: 9}}, Open: true, Upstream: "u\xff"},
		Health:   store.Health{Suspended: true, SuspendedAt: at(1), FailedSince: at(2), LastDeliveryAt: at(3), LastError: "timeout"},
		Rewound:  1, AgainDone: 2, GapDone: 3, TopicGapDone: 4}, decoder[Status]},
	"use":     {used, decoder[use]},
	"quota":   {&count{3}, decoder[count]},
	"ver":     {&verificationRecord{store.Verification{Principal: "ann", URL: "u", Method: "challenge", At: at(1), Until: at(2)}, [2]int{1, 2}}, decoder[verificationRecord]},
	"revoked": {&Revocations{map[string]Revocation{"": {at(1), wire.ErrorObject{Code: 1, Message: "m", Data: json.RawMessage("2")}}}}, decoder[Revocations]},
	"topic":   {&topicRecord{"ticket.created", 16}, decoder[topicRecord]},
	"order":   {&Order{3, at(1), &wire.ErrorObject{Code: 1, Message: "m", Data: json.RawMessage("2")}}, decoder[Order]},
	"closed":  {&closing{wire.ErrorObject{Code: 1, Message: "m", Data: json.RawMessage("2")}}, decoder[closing]},
	"schema":  {&schemaRecord{SchemaVersion{Fingerprint: "f", InputSchema: json.RawMessage(`{}`), PayloadSchema: json.RawMessage(`{"n":1}`), Floor: 7}}, decoder[schemaRecord]},
	"mark":    {&Checkpoint{1<<64 - 1, 9}, decoder[Checkpoint]},
	"act":     {&actionRecord{[]byte("request"), []byte{}, at(1)}, decoder[actionRecord]},
	"lease":   {&Member{ID: "x", Name: "n", Types: map[string]string{"a": "f"}, Joined: at(1), Renewed: at(2), TTL: time.Second}, decoder[Member]},
	"shard":   {&holder{Shard{Topic: "a", Number: 1}, "x"}, decoder[holder]},
	"check":   {&keyCheck{[]byte("sealed"), true}, decoder[keyCheck]},
	"cur":     {&cursorRecord{[]byte("c\xff"), [][]byte{[]byte("e1"), []byte("e\xff")}, 7}, decoder[cursorRecord]},
	"cb": {&callbackRecord{Key: []byte("k\xff"), URL: "https://r.example/<&>", Path: "/p", Secrets: []store.Secret{{Key: []byte("key"), NotAfter: at(9)}},
		Sealed: []byte("sealed"), Subscription: "sub_1", Start: []byte("c"), EventIDs: [][]byte{[]byte("e1")}}, decoder[callbackRecord]},
	"rcv":      {&bodyRecord{[]byte("e\xff"), []byte("{ \"a\" : 1 }")}, decoder[bodyRecord]},
	"sequence": {&sequence{1<<64 - 1}, decoder[sequence]},
	"dl": {&letterRecord{Key: []byte("k\xff"), Event: "note.added", EventID: []byte("e1"), Timestamp: events.NewTime(at(1)), Data: []byte("[\xff"), Meta: []byte("{}"),
		Error: "no", Tries: 5, First: at(2), Last: at(3), Due: true}, decoder[letterRecord]},
	"src": {&sourceRecord{[]byte("c\xff")}, decoder[sourceRecord]},
	"sch": {&scheduleRecord{Owner: []byte("ann"), NextRun: -5, Record: []byte("{ }"), Queue: 1<<64 - 1, Done: 3, Last: 9, Deleted: true}, decoder[scheduleRecord]},
	"que": {&chunk{[][]byte{[]byte("{ }"), []byte("2")}}, decoder[chunk]},
	"att": {&attemptRecord{[]operator.Attempt{{EventID: "evt_1", Number: 2, At: at(1).Local()}}}, func(r store.Record) (any, error) {
		made, err := attemptsOf(r)
		return &attemptRecord{made}, err
	}},
}

func decoder[T any, P interface {
	*T
	store.Value
}](r store.Record) (any, error) {
	v, err := decode[T, P](r)
	return v, err
}

// What is in stores today is read the same for ever. Set UPDATE_GOLDEN to write the files of new families.
func TestForms(t *testing.T) {
	for name, v := range values {
		path := filepath.Join("testdata", name+".golden")
		got := v.value.Bytes()
		want, err := os.ReadFile(path)
		if os.IsNotExist(err) && os.Getenv("UPDATE_GOLDEN") != "" {
			must(t, os.WriteFile(path, got, 0o644))
			want, err = got, nil
		}
		must(t, err)
		if string(got) != string(want) {
			t.Errorf("%s is written as\n%s\nwant\n%s", name, got, want)
		}
		read, err := v.decode(store.Record{Key: name, Value: store.Bytes(want)})
		must(t, err)
		if diff := cmp.Diff(v.value, read, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
			t.Errorf("%s is read with differences:\n%s", name, diff)
		}
		if typed, err := v.decode(store.Record{Key: name, Value: v.value}); err != nil || name != "att" && typed != any(v.value) {
			t.Errorf("%s: the typed value is read as %v, %v", name, typed, err)
		}
		for _, damaged := range []store.Value{store.Bytes("{"), store.Bytes("\x63"), store.Bytes(`{"form":2,"value":{}}`), store.Bytes(`{"form":1}`), otherValue{}} {
			if _, err := v.decode(store.Record{Key: name, Value: damaged}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v is read: %v", name, damaged, err)
			}
		}
	}
}

type otherValue struct{}

func (otherValue) Bytes() []byte { return nil }

// Every field is set in the values above, so that none is lost without notice.
func TestFormsAreWhole(t *testing.T) {
	for name, v := range values {
		whole(t, name, reflect.ValueOf(v.value).Elem())
	}
}

func whole(t *testing.T, path string, v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[operator.Attempt]() {
		return
	}
	if v.Kind() != reflect.Struct {
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		field := v.Field(i)
		if field.Kind() == reflect.Pointer && !field.IsNil() {
			field = field.Elem()
		}
		if field.IsZero() {
			t.Errorf("%s.%s is not set", path, f.Name)
		}
		whole(t, path+"."+f.Name, field)
	}
}
