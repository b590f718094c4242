package topic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// BenchmarkPass is a pass over 1,000 entries with 8 labels, none of which match the filter.
func BenchmarkPass(b *testing.B) {
	typ := newType(b)
	typ.Rules = nil
	for _, m := range []events.MatchRule{
		{Argument: "equal", Path: "/labels/*"},
		{Argument: "in", Path: "/labels/*", Op: events.MatchIn},
		{Argument: "glob", Path: "/labels/*", Op: events.MatchGlob},
		{Argument: "prefix", Path: "/labels/*", Op: events.MatchPrefix},
		{Argument: "gte", Path: "/labels/*", Op: events.MatchGTE},
	} {
		rule, err := NewRule(m)
		if err != nil {
			b.Fatal(err)
		}
		typ.Rules = append(typ.Rules, rule)
	}
	t, err := Open(typ, Options{Slots: 1024, Open: func(appended func([]store.Entry)) (store.EventLog, error) {
		return memory.NewLog(store.LogOptions{MaxCount: 10_000, Appended: appended}), nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		e := store.Entry{EventID: fmt.Sprint(i), Data: json.RawMessage(`{"labels":["bug","ui","backend","web-1","needs-triage","p1","regression","good first issue"]}`)}
		if _, err := t.Append(b.Context(), e, false); err != nil {
			b.Fatal(err)
		}
	}
	for _, tc := range []struct{ name, args string }{
		{"none", `{}`},
		{"equal", `{"equal":"zz"}`},
		{"in", `{"in":["zz","zy"]}`},
		{"glob", `{"glob":"zz*"}`},
		{"glob inside", `{"glob":"*zz*"}`},
		{"glob suffix", `{"glob":"*-2"}`},
		{"glob ?", `{"glob":"web-?2"}`},
		{"glob ? inside", `{"glob":"*web-?2*"}`},
		{"prefix", `{"prefix":"zz"}`},
		{"gte", `{"gte":"zz"}`},
		{"hostile", `{"glob":"*` + strings.Repeat("a?", 64) + `*"}`},
	} {
		b.Run(tc.name, func(b *testing.B) {
			a, err := typ.Parse(json.RawMessage(tc.args))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				r := t.Reader(a, "x", nil, 0)
				if _, err := r.Next(b.Context(), nil, Bound{Outcomes: 1 << 20, Bytes: 1 << 30, Scan: PullScan}); err != nil || r.Position() != 1000 {
					b.Fatal(r.Position(), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
		})
	}
}
