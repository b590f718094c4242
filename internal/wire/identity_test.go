package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

func readVectors(t *testing.T, name string, v any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

type identityVectors struct {
	Equal []struct {
		Canonical string
		Arguments []string
	}
	Different []string
	Refused   []struct{ Arguments, Path, Message string }
}

// SUB-4 and trap 9 (arguments): {}, absent and null are equal, and so are 1, 1.0 and 1e0; nothing
// else is taken for something it is not; what has no exact canonical form is refused with its place.
// Canonical carries it.
func TestArgumentIdentity(t *testing.T) {
	var v identityVectors
	readVectors(t, "identity.json", &v)
	owner := map[string]int{}
	for i, class := range v.Equal {
		for _, args := range class.Arguments {
			got, err := wire.Canonical(json.RawMessage(args))
			if err != nil || string(got) != class.Canonical {
				t.Errorf("%q is %s, %v, want %s", args, got, err, class.Canonical)
			}
		}
		if other, taken := owner[class.Canonical]; taken {
			t.Errorf("classes %d and %d are one", i, other)
		}
		owner[class.Canonical] = i
	}
	if got, err := wire.Canonical(nil); err != nil || string(got) != "{}" {
		t.Errorf("absent arguments are %s, %v", got, err)
	}
	seen := map[string]string{}
	for _, args := range v.Different {
		got, err := wire.Canonical(json.RawMessage(args))
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if other, taken := seen[string(got)]; taken {
			t.Errorf("%s and %s are equal", args, other)
		}
		seen[string(got)] = args
	}
	for _, c := range v.Refused {
		got, err := wire.Canonical(json.RawMessage(c.Arguments))
		wantFault(t, c.Arguments, err, c.Path, c.Message)
		if err == nil {
			t.Errorf("%s is %s", c.Arguments, got)
		}
	}
	_, err := wire.Canonical(json.RawMessage("{\"a\":[\"\xff\"]}"))
	wantFault(t, "invalid UTF-8", err, "/a/0", "UTF-8")
	_, err = wire.Canonical(json.RawMessage(strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600)))
	wantFault(t, "deep", err, strings.Repeat("/a", wire.MaxDepth), "deeper than 512")
	if _, err := wire.Canonical(json.RawMessage(strings.Repeat("[", wire.MaxDepth) + strings.Repeat("]", wire.MaxDepth))); err != nil {
		t.Errorf("the deepest: %v", err)
	}
}

func wantFault(t *testing.T, what string, err error, path, message string) {
	t.Helper()
	var faults *wire.FieldErrors
	if !errors.As(err, &faults) || len(faults.Errors) != 1 || faults.Errors[0].Path != path || !strings.Contains(faults.Errors[0].Message, message) {
		t.Errorf("%.60s: got %v, want %q … %s", what, err, path, message)
	}
}

// The canonical form is that of RFC 8785. Its own examples hold numbers beyond what arguments may.
func TestRFC8785(t *testing.T) {
	var v struct {
		Documents []struct{ Input, Canonical string }
		Numbers   map[string]string
	}
	readVectors(t, "rfc8785.json", &v)
	for _, d := range v.Documents {
		small, want := strings.Replace(d.Input, "1E30", "1E10", 1), strings.Replace(d.Canonical, "1e+30", "10000000000", 1)
		if got, err := wire.Canonical(json.RawMessage(small)); err != nil || string(got) != want {
			t.Errorf("got %s, %v\nwant %s", got, err, want)
		}
	}
	for bits, want := range v.Numbers {
		n, err := strconv.ParseUint(bits, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		f := math.Float64frombits(n)
		got, err := wire.Canonical(json.RawMessage(strconv.FormatFloat(f, 'g', -1, 64)))
		if math.Abs(f) > wire.MaxInteger {
			if err == nil {
				t.Errorf("%s is accepted", want)
			}
		} else if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", want, got, err)
		}
	}
}

// A canonical form is its own canonical form, and another implementation gives the same.
func TestCanonicalProperty(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(3) })
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(value.Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		once, err := wire.Canonical(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		twice, err := wire.Canonical(once)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("%s: %s then %s, %v", raw, once, twice, err)
		}
		if other, err := jcs.Transform(raw); err != nil || string(other) != string(once) && string(other) != "null" {
			t.Fatalf("%s: got %s, another implementation %s, %v", raw, once, other, err)
		}
	})
}

func jsonValue(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.Int64Range(-wire.MaxInteger, wire.MaxInteger).AsAny(), rapid.Float64Range(-1e15, 1e15).AsAny(),
	}
	if depth > 0 {
		leaves = append(leaves,
			rapid.SliceOfN(jsonValue(depth-1), 0, 4).AsAny(),
			rapid.MapOfN(rapid.String(), jsonValue(depth-1), 0, 4).AsAny())
	}
	return rapid.OneOf(leaves...)
}

func FuzzCanonical(f *testing.F) {
	f.Add([]byte(`{"b":[1.0,-0,"\ud83d\ude00"],"a":{"":null}}`))
	f.Add([]byte(`{"n":9007199254740993}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		once, err := wire.Canonical(raw)
		if err != nil {
			return
		}
		if twice, err := wire.Canonical(once); err != nil || string(twice) != string(once) {
			t.Errorf("%q: %s then %s, %v", raw, once, twice, err)
		}
		if other, err := jcs.Transform(raw); err == nil && string(other) != string(once) && string(other) != "null" {
			t.Errorf("%q: got %s, another implementation %s", raw, once, other)
		}
	})
}

// SUB-4, SRV-2: the id follows from the key alone, by published vectors, and differs with every
// part of it, the url's spelling included.
func TestSubscriptionIDVectors(t *testing.T) {
	var vectors []struct{ Mode, Principal, URL, Name, Arguments, ID string }
	readVectors(t, "subscription_ids.json", &vectors)
	seen := map[string]bool{}
	for _, v := range vectors {
		if got := wire.SubscriptionID(v.Mode, v.Principal, v.URL, v.Name, []byte(v.Arguments)); got != v.ID || seen[got] {
			t.Errorf("%+v: got %s", v, got)
		}
		seen[v.ID] = true
	}
}

// Moving bytes from one part of the key to the next gives another id.
func TestSubscriptionIDIsUnambiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringN(0, 8, 16), 5, 5).Draw(t, "parts")
		others := rapid.SliceOfN(rapid.StringN(0, 8, 16), 5, 5).Draw(t, "others")
		joined := strings.Join(parts, "")
		if rapid.Bool().Draw(t, "recut") { // the same bytes, cut elsewhere
			rest := joined
			for i := range 4 {
				n := rapid.IntRange(0, len(rest)).Draw(t, "cut")
				others[i], rest = rest[:n], rest[n:]
			}
			others[4] = rest
		}
		id := func(p []string) string { return wire.SubscriptionID(p[0], p[1], p[2], p[3], []byte(p[4])) }
		equal := strings.Join(parts, "\x00|") == strings.Join(others, "\x00|")
		if (id(parts) == id(others)) != equal {
			t.Fatalf("%q and %q: %s, %s", parts, others, id(parts), id(others))
		}
	})
}

// EVOL-4: the fingerprint is of the RFC 8785 form of both schemas, so neither spacing nor the order
// of members counts.
func TestFingerprintVectors(t *testing.T) {
	var vectors []struct{ InputSchema, PayloadSchema, Fingerprint string }
	readVectors(t, "fingerprints.json", &vectors)
	for _, v := range vectors {
		got, err := wire.Fingerprint(json.RawMessage(v.InputSchema), json.RawMessage(v.PayloadSchema))
		if err != nil || got != v.Fingerprint {
			t.Errorf("%+v: got %s, %v", v, got, err)
		}
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `{`, `{} {}`, `1e999`} {
		if got, err := wire.Fingerprint(json.RawMessage(`{}`), json.RawMessage(bad)); err == nil {
			t.Errorf("%s has the fingerprint %s", bad, got)
		}
	}
}

// OCC-2: an eventId is visible ASCII of at most 256 bytes, because it becomes a header.
func TestEventIDs(t *testing.T) {
	for _, id := range []string{"e", "evt_1", "!~", "018f3c2e-7b1a-7c3e-9d2f-0123456789ab", "a/b?c=d&e:f;g,h\"i", strings.Repeat("x", 256)} {
		if err := wire.CheckEventID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", " ", "a b", "a\t", "a\n", "a\x00", "é", "a\x7f", strings.Repeat("x", 257), "\xff"} {
		if err := wire.CheckEventID(id); !errors.Is(err, events.ErrEventID) {
			t.Errorf("%q is accepted", id)
		}
	}
}

func TestEventNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"incident.created": true, "A-Z_0.9": true, strings.Repeat("n", 128): true,
		"": false, "a b": false, "a/b": false, "é": false, strings.Repeat("n", 129): false, "a\n": false,
	} {
		if err := wire.CheckEventName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	raw := json.RawMessage(`{"severity":"P1","service":"checkout-api","limit":50}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.Canonical(raw); err != nil {
			b.Fatal(err)
		}
	}
}
