package topic

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// The operators of x-match, place by place (trap 9 for numbers: 1, 1.0 and 1e0 are one; matchKey and
// decimal.key carry it here, wire.Canonical and Type.compile for whole arguments).
func TestMatchRules(t *testing.T) {
	for _, tc := range []struct {
		op           events.MatchOp
		arg, payload string
		want         bool
	}{
		{"", `"P1"`, `{"a":{"b":"P1"}}`, true},
		{"", `"P1"`, `{"a":{"b":"p1"}}`, false},
		{"", `1`, `{"a":{"b":1.0}}`, true},
		{"", `1e2`, `{"a":{"b":100}}`, true},
		{"", `1`, `{"a":{"b":"1"}}`, false},
		{"", `9007199254740991`, `{"a":{"b":9007199254740990}}`, false},
		{"", `true`, `{"a":{"b":true}}`, true},
		{"", `"x"`, `{"a":{"b":["y","x"]}}`, true},
		{"", `"x"`, `{"a":{"b":[]}}`, false},
		{"", `"x"`, `{"a":{"b":null}}`, false},
		{"", `"x"`, `{"a":{}}`, false},
		{"", `"x"`, `{"a":"x"}`, false},
		{"", `{"k":1}`, `{"a":{"b":{"k":1.0}}}`, true},
		{"in", `["x","y"]`, `{"a":{"b":"y"}}`, true},
		{"in", `["x",2]`, `{"a":{"b":[2.0]}}`, true},
		{"in", `[]`, `{"a":{"b":"y"}}`, false},
		{"glob", `"web-*"`, `{"a":{"b":"web-1"}}`, true},
		{"glob", `"*.[x]"`, `{"a":{"b":"a.[x]"}}`, true},
		{"glob", `"a?c"`, `{"a":{"b":"aéc"}}`, true},
		{"glob", `"a?c"`, `{"a":{"b":"ac"}}`, false},
		{"glob", `"*a??c*"`, `{"a":{"b":"xaéc"}}`, false},
		{"glob", `"*?*"`, `{"a":{"b":"é"}}`, true},
		{"glob", `"*?*?"`, `{"a":{"b":"é"}}`, false},
		{"glob", `"*?é*é"`, `{"a":{"b":"€éé"}}`, true},
		{"glob", `"*"`, `{"a":{"b":1}}`, false},
		{"prefix", `"we"`, `{"a":{"b":["x","web"]}}`, true},
		{"prefix", `"we"`, `{"a":{"b":"ew"}}`, false},
		{"min", `2`, `{"a":{"b":2.0}}`, true},
		{"min", `2`, `{"a":{"b":1.999}}`, false},
		{"max", `9007199254740993`, `{"a":{"b":9007199254740993}}`, true},
		{"max", `2`, `{"a":{"b":"1"}}`, false},
		{"max", `"2026-01-01T00:00:00Z"`, `{"a":{"b":"2026-01-01T00:30:00+01:00"}}`, true},
		{"min", `"b"`, `{"a":{"b":"c"}}`, true},
		{"min", `1`, `{"a":{"b":1e900}}`, true},
		{"lt", `2`, `{"a":{"b":1.5}}`, true},
		{"lt", `2`, `{"a":{"b":2.0}}`, false},
		{"lte", `2`, `{"a":{"b":2.0}}`, true},
		{"lte", `2`, `{"a":{"b":2.1}}`, false},
		{"gt", `2`, `{"a":{"b":2.0}}`, false},
		{"gt", `2`, `{"a":{"b":[1,3]}}`, true},
		{"gte", `2`, `{"a":{"b":2}}`, true},
		{"gte", `2`, `{"a":{"b":"3"}}`, false},
		{"gt", `"2026-01-01T00:00:00Z"`, `{"a":{"b":"2026-01-01T00:30:00+01:00"}}`, false},
		{"lt", `"2026-01-01T00:00:00Z"`, `{"a":{"b":"2026-01-01T00:30:00+01:00"}}`, true},
	} {
		rule := events.MatchRule{Argument: "x", Path: "/a/b", Op: tc.op}
		if got := meets(t, rule, tc.arg, tc.payload); got != tc.want {
			t.Errorf("%s %s against %s: %v", tc.op, tc.arg, tc.payload, got)
		}
		// Not turns every one of them around.
		rule.Not = true
		if got := meets(t, rule, tc.arg, tc.payload); got == tc.want {
			t.Errorf("not %s %s against %s: %v", tc.op, tc.arg, tc.payload, got)
		}
	}
	for _, bad := range []events.MatchRule{{Argument: "x", Path: "a"}, {Argument: "x", Path: "/a~2"}, {Argument: "x", Path: "/a", Op: "like"}} {
		if _, err := NewRule(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}

// meets reports whether a rule lets an occurrence with the payload through, for a subscription with the argument.
func meets(t *testing.T, rule events.MatchRule, arg, payload string) bool {
	t.Helper()
	r, err := NewRule(rule)
	if err != nil {
		t.Fatal(err)
	}
	value, err := validate.Decode(json.RawMessage(arg))
	if err != nil {
		t.Fatal(err)
	}
	data, err := validate.Decode(json.RawMessage(payload))
	if err != nil {
		t.Fatal(err)
	}
	test := newTest(0, &r, value)
	return test.matches(&placesIn([]Rule{r}, data)[0])
}

// A * leads through every element of an array, and is the name of a member in an object (MATCH-2).
func TestMatchThroughArrays(t *testing.T) {
	for _, tc := range []struct {
		path, arg, payload string
		want               bool
	}{
		{"/labels/*/name", `"bug"`, `{"labels":[{"name":"ui"},{"name":"bug"}]}`, true},
		{"/labels/*/name", `"bug"`, `{"labels":[{"name":"ui"},{}]}`, false},
		{"/labels/*/name", `"bug"`, `{"labels":[]}`, false},
		{"/labels/*/name", `"bug"`, `{"labels":null}`, false},
		{"/labels/*/name", `"bug"`, `{"labels":"bug"}`, false},
		{"/labels/*/name", `"bug"`, `{"labels":{"name":"bug"}}`, false},
		{"/labels/*/name", `"bug"`, `{"labels":{"*":{"name":"bug"}}}`, true},
		{"/labels/*", `"bug"`, `{"labels":["ui","bug"]}`, true},
		{"/labels/*", `"bug"`, `{"labels":[["ui","bug"]]}`, true},
		{"/labels/1/name", `"bug"`, `{"labels":[{"name":"ui"},{"name":"bug"}]}`, true},
		{"/labels/0/name", `"bug"`, `{"labels":[{"name":"ui"},{"name":"bug"}]}`, false},
		{"/*/*/sku", `7`, `[[{"sku":1}],[{"sku":2},{"sku":7.0}]]`, true},
		{"/*/*/sku", `7`, `[[{"sku":1}],[{"sku":2}],[]]`, false},
		{"/lines/*/tags", `"x"`, `{"lines":[{"tags":["y"]},{"tags":["z","x"]}]}`, true},
	} {
		if got := meets(t, events.MatchRule{Argument: "x", Path: tc.path}, tc.arg, tc.payload); got != tc.want {
			t.Errorf("%s %s against %s: %v", tc.path, tc.arg, tc.payload, got)
		}
	}
}

func TestGlobProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`[ab*?é]{0,8}`).Draw(t, "pattern")
		s := rapid.StringMatching(`[abé]{0,10}`).Draw(t, "s")
		if rapid.Bool().Draw(t, "long") { // a run of more than 64 characters, which may well match
			run := rapid.SliceOfN(rapid.SampledFrom([]rune("aé")), 60, 140).Draw(t, "run")
			s += string(run) + s
			for range rapid.IntRange(0, 3).Draw(t, "wild") {
				run[rapid.IntRange(0, len(run)-1).Draw(t, "at")] = '?'
			}
			if rapid.IntRange(0, 3).Draw(t, "other") == 0 {
				run[rapid.IntRange(0, len(run)-1).Draw(t, "where")] = 'b'
			}
			pattern += "*" + string(run) + "*"
		}
		re := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
		if want := regexp.MustCompile(`^(?s:` + re + `)$`).MatchString(s); compileGlob(pattern).matches(s) != want {
			t.Fatalf("glob(%q, %q) = %v", pattern, s, !want)
		}
	})
}

// The index wakes exactly whom a scan over all readers would, also beyond its bounds.
func TestIndexProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 9 // rules: more shapes than maxShapes
		d := &Type{}
		for i := range n {
			m := events.MatchRule{Argument: fmt.Sprint("a", i), Path: fmt.Sprint("/a", i)}
			switch i { // not indexed
			case n - 2:
				m.Not = true
			case n - 1:
				m.Op = events.MatchGT
			}
			r, _ := NewRule(m)
			d.Rules = append(d.Rules, r)
		}
		var x index
		var all []*Reader
		for i := range rapid.IntRange(1, 120).Draw(t, "readers") {
			a := &Arguments{Of: d}
			for r := range n {
				if rapid.IntRange(0, 2).Draw(t, "constrained") == 0 {
					a.tests = append(a.tests, newTest(r, &d.Rules[r], rapid.SampledFrom([]any{"x", "y"}).Draw(t, "value")))
				}
			}
			r := &Reader{args: a, id: fmt.Sprint(i), slot: -1}
			x.attach(r)
			all = append(all, r)
			if rapid.IntRange(0, 9).Draw(t, "parked") > 0 {
				x.park(r)
			}
		}
		if len(x.shapes) > maxShapes+n {
			t.Fatalf("%d shapes", len(x.shapes))
		}
		for range 5 {
			payload := map[string]any{}
			for r := range n {
				list := rapid.SliceOfN(rapid.SampledFrom([]any{"x", "y", "z"}), 0, 4).Draw(t, "place")
				for i := range rapid.SampledFrom([]int{0, 0, 0, 5, 100}).Draw(t, "more") {
					list = append(list, float64(i))
				}
				if len(list) > 0 {
					payload[fmt.Sprint("a", r)] = list
				}
			}
			rec := &record{typ: d, places: placesIn(d.Rules, payload), entry: store.Entry{}}
			if rapid.Bool().Draw(t, "targeted") {
				rec.entry.Targets = []string{"0", "3", "none"}
			}
			woken := map[*Reader]bool{}
			waiting := map[*Reader]bool{}
			for _, r := range all {
				waiting[r] = r.slot >= 0
			}
			x.wakeMatching(rec, func(r *Reader) {
				if woken[r] {
					t.Fatal("woken twice")
				}
				woken[r] = true
			})
			for i, r := range all {
				matches, _ := r.args.matches(rec.places)
				want := waiting[r] && matches && rec.isAddressedTo(r.id)
				if woken[r] != want || woken[r] && r.slot >= 0 {
					t.Fatalf("reader %d woken %v, want %v", i, woken[r], want)
				}
				if woken[r] {
					x.park(r)
				}
			}
		}
		for _, r := range all {
			x.detach(r)
		}
		if len(x.shapes) != 0 || len(x.byID) != 0 {
			t.Fatal("not empty")
		}
	})
}

// Trap 15: the index by itself looks at nobody whom equality rules out, by however many values an
// occurrence is looked up. The readers here have no tests left, so that everyone who is looked at is
// woken. bucket.meets and composites carry it.
func TestTrap15IndexLooksAtNobodyElse(t *testing.T) {
	const n = 3
	d := &Type{}
	for i := range n {
		r, _ := NewRule(events.MatchRule{Argument: fmt.Sprint("a", i), Path: fmt.Sprint("/a", i)})
		d.Rules = append(d.Rules, r)
	}
	rapid.Check(t, func(t *rapid.T) {
		var x index
		asked := map[*Reader]*Arguments{}
		for i := range rapid.IntRange(1, 60).Draw(t, "readers") {
			full := &Arguments{Of: d}
			for r := range n {
				if v := rapid.SampledFrom([]any{nil, "x", "y", "yy"}).Draw(t, "value"); v != nil {
					full.tests = append(full.tests, newTest(r, &d.Rules[r], v))
				}
			}
			bare := &Arguments{Of: d, tests: full.tests}
			r := &Reader{args: bare, id: fmt.Sprint(i), slot: -1}
			x.attach(r)
			x.park(r)
			bare.tests, asked[r] = nil, full
		}
		payload := map[string]any{}
		for r := range n {
			list := rapid.SliceOfN(rapid.SampledFrom([]any{"x", "y", "yy", "z"}), 0, 4).Draw(t, "place")
			for i := range rapid.SampledFrom([]int{0, 0, MaxComposites + 1}).Draw(t, "more") {
				list = append(list, float64(i))
			}
			payload[fmt.Sprint("a", r)] = list
		}
		rec := &record{typ: d, places: placesIn(d.Rules, payload)}
		woken := map[*Reader]bool{}
		x.wakeMatching(rec, func(r *Reader) { woken[r] = true })
		for r, a := range asked {
			if want, _ := a.matches(rec.places); woken[r] != want {
				t.Fatalf("reader %s of rules %v looked at: %v, want %v", r.id, a.shape(), woken[r], want)
			}
		}
	})
}

// Trap 15: how many combinations an occurrence has may be beyond what an int counts; whom it concerns is
// woken all the same. composites carries it.
func TestTrap15CountlessCombinations(t *testing.T) {
	const n, values = 8, 256 // 256^8 is 2^64
	d, a, payload := &Type{}, &Arguments{}, map[string]any{}
	var list []any
	for i := range values {
		list = append(list, fmt.Sprint("v", i))
	}
	for i := range n {
		r, _ := NewRule(events.MatchRule{Argument: fmt.Sprint("a", i), Path: fmt.Sprint("/a", i)})
		d.Rules = append(d.Rules, r)
		payload[fmt.Sprint("a", i)] = list
		a.tests = append(a.tests, newTest(i, &r, "v7"))
	}
	a.Of = d
	var x index
	r := &Reader{args: a, id: "1", slot: -1}
	x.attach(r)
	x.park(r)
	woken := 0
	x.wakeMatching(&record{typ: d, places: placesIn(d.Rules, payload)}, func(*Reader) { woken++ })
	if woken != 1 {
		t.Errorf("woken %d times", woken)
	}
}
