package topic

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/validate"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A pattern that makes a backtracking matcher try every place with all of the pattern. At a
// nanosecond a comparison that would be minutes.
func TestGlobIsLinear(t *testing.T) {
	text := strings.Repeat("a", 1<<20)
	for _, pattern := range []string{
		"*" + strings.Repeat("a", 1<<18) + "b",
		"*" + strings.Repeat("a", 1<<18) + "b*",
		"*" + strings.Repeat("a*", 1<<17) + "b",
		"*" + strings.Repeat("?", 1000) + "b*",
		"*" + strings.Repeat("a?", 500) + "b*",
	} {
		if compileGlob(pattern).matches(text) {
			t.Errorf("%.20s… matches", pattern)
		}
	}
	if !compileGlob("*" + strings.Repeat("a?", 500) + "b*").matches(text + "b") {
		t.Error("what matches does not")
	}
}

// What a compiled pattern keeps is counted, and is at most three times the pattern beside a constant (CAP-5).
func TestGlobSize(t *testing.T) {
	for _, pattern := range []string{"*" + strings.Repeat("?", 1000) + "*", strings.Repeat("*?a", 340) + "*", strings.Repeat("*?", 500) + "*"} {
		a := &Arguments{tests: []test{newTest(0, &Rule{MatchRule: events.MatchRule{Op: events.MatchGlob}}, pattern)}}
		n := a.Variable() - len(pattern)
		if n < len(pattern) || n > 3*len(pattern)+200 {
			t.Errorf("%.10s of %d bytes keeps %d more", pattern, len(pattern), n)
		}
	}
}

// Numbers are compared exactly, whatever their notation, and equal ones have one key (trap 9).
func TestDecimalProperty(t *testing.T) {
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		x, y := number.Draw(t, "x"), number.Draw(t, "y")
		a, _ := new(big.Rat).SetString(x)
		b, _ := new(big.Rat).SetString(y)
		c, ok1 := parseDecimal(x)
		d, ok2 := parseDecimal(y)
		if !ok1 || !ok2 || c.compare(d) != a.Cmp(b) || (c.key() == d.key()) != (a.Cmp(b) == 0) {
			t.Fatalf("%s and %s: %d, keys %s and %s", x, y, c.compare(d), c.key(), d.key())
		}
	})
}

// Arithmetic with these takes gigabytes; deciding them must not.
func TestHugeNumbers(t *testing.T) {
	for _, tc := range []struct {
		x, y string
		want int
	}{
		{"1e999999999", "1e1000000000", -1},
		{"-1e999999999", "1", -1},
		{"1" + strings.Repeat("0", 1<<20), "1e1048576", 0},
		{"1e-1000000000", "0", 1},
		{"0." + strings.Repeat("0", 1<<20) + "1", "1e-1048577", 0},
		{"0e999999999", "-0.000", 0},
	} {
		x, ok1 := parseDecimal(tc.x)
		y, ok2 := parseDecimal(tc.y)
		if got := x.compare(y); !ok1 || !ok2 || got != tc.want || y.compare(x) != -tc.want || (x.key() == y.key()) != (tc.want == 0) {
			t.Errorf("%.20s, %.20s: %d", tc.x, tc.y, got)
		}
	}
	if _, ok := parseDecimal("1e99999999999999999999"); ok {
		t.Error("an exponent beyond every machine is taken")
	}
}

// hostileType has one rule of each op on a text, a list and a number.
var hostileType = []events.MatchRule{
	{Argument: "glob", Path: "/text", Op: events.MatchGlob},
	{Argument: "prefix", Path: "/text", Op: events.MatchPrefix},
	{Argument: "in", Path: "/list", Op: events.MatchIn},
	{Argument: "has", Path: "/list"},
	{Argument: "min", Path: "/text", Op: events.MatchMin},
}

func hostileRules(t testing.TB) []Rule {
	rules := make([]Rule, len(hostileType))
	for i, m := range hostileType {
		var err error
		if rules[i], err = NewRule(m); err != nil {
			t.Fatal(err)
		}
	}
	return rules
}

// Whatever arguments and payload: what the append lock is held for decides as the full evaluation
// does, or leaves it to the reader; and it leaves what is large to the reader.
func TestMayMatchIsBounded(t *testing.T) {
	rules := hostileRules(t)
	many := func(n, from int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `,"k%d"`, from+i)
		}
		return "[" + strings.TrimPrefix(b.String(), ",") + "]"
	}
	long := strings.Repeat("a", 64<<10)
	payloads := []string{
		`{"text":"` + long + `","list":["k1"]}`,
		`{"text":"short","list":` + many(5000, 0) + `}`,
		`{"text":` + many(5000, 0) + `,"list":[1]}`,
		`{"text":"web-1","list":["k1","k2"]}`,
		`{}`,
	}
	values := []struct {
		rule  int
		value string
	}{
		{0, `"*` + strings.Repeat("a", 1000) + `b"`}, {0, `"*` + strings.Repeat("a?", 500) + `b"`}, {0, `"web-*"`}, {0, `"*"`},
		{1, `"web"`}, {1, `"` + long + `"`}, {2, many(6000, 3000)}, {2, many(6000, 9000)}, {2, `["k1"]`},
		{3, `"k1"`}, {3, `"` + long + `"`}, {4, `"` + long + `"`}, {4, `"m"`},
	}
	// What is left to the reader: payload, value.
	dear := map[[2]int]bool{{0, 0}: true, {0, 1}: true, {0, 5}: true, {0, 11}: true,
		{1, 6}: true, {1, 7}: true, {2, 2}: true, {2, 3}: true, {2, 4}: true, {2, 5}: true, {2, 11}: true, {2, 12}: true}
	for i, p := range payloads {
		payload, err := validate.Decode(json.RawMessage(p))
		if err != nil {
			t.Fatal(err)
		}
		ps := placesIn(rules, payload)
		for j, v := range values {
			value, err := validate.Decode(json.RawMessage(v.value))
			if err != nil {
				t.Fatal(err)
			}
			a := &Arguments{tests: []test{newTest(v.rule, &rules[v.rule], value)}}
			exact, _ := a.matches(ps)
			may := a.mayMatch(ps)
			cost := a.tests[0].cost(&ps[v.rule])
			if exact && !may || cost <= MaxCost && exact != may {
				t.Errorf("%.30s against %.30s: matches %v, may match %v", v.value, p, exact, may)
			}
			if dear[[2]int{i, j}] != (cost > MaxCost) {
				t.Errorf("%.30s against %.30s costs %d", v.value, p, cost)
			}
		}
	}
}

// Readers of one subscription id leave in any order.
func TestTwinsDetach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		var all []*Reader
		for range rapid.IntRange(1, 8).Draw(t, "readers") {
			r := &Reader{args: &Arguments{}, id: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"), slot: -1}
			x.attach(r)
			x.park(r)
			all = append(all, r)
		}
		for len(all) > 0 {
			i := rapid.IntRange(0, len(all)-1).Draw(t, "leaves")
			x.detach(all[i])
			all = slices.Delete(all, i, i+1)
			woken := 0
			x.wakeMatching(&record{entry: store.Entry{Targets: []string{"a", "b"}}}, func(r *Reader) {
				if !slices.Contains(all, r) {
					t.Fatal("a reader that is gone is woken")
				}
				woken++
			})
			if woken != len(all) {
				t.Fatalf("%d of %d woken", woken, len(all))
			}
			for _, r := range all {
				x.park(r)
			}
		}
	})
}
