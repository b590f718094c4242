package gen_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// memberNames are names of members in many scripts, with punctuation and controls, and 1,000 that are drawn.
func memberNames() []string {
	all := []string{
		"नाम", "ชื่อ", "நிறம்", "e\u0301", "größe", "日本", "€", "°C", "½", "m²", "\U0001F600", "“quoted”", "a–b", "a—b", "a\tb", "a\u2028b", "a\u2029b",
		"\u00a0", "\u200d", "a\nb", "a\x00b", "<&>", "$ref", "a b", "-", "--", "it's", `"`, `\`, "`", "a,b", ",", "\ufeff", "\ufffd", "_", "Extra",
	}
	seen := map[string]bool{"": true}
	for _, name := range all {
		seen[name] = true
	}
	drawn := rapid.StringOfN(rapid.OneOf(rapid.Rune(), rapid.RuneFrom(nil, unicode.L, unicode.M, unicode.S, unicode.P, unicode.N)), 1, 6, -1)
	for seed := 0; len(all) < 1036; seed++ {
		if name := drawn.Example(seed); !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// escaped writes JSON in printable ASCII: an event file takes control characters as escapes only.
func escaped(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// TestMemberNameRoundTrip is about the names of members: encoding/json writes and reads a generated struct under the
// names that the schema has, whatever characters they consist of.
func TestMemberNameRoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles what is generated")
	}
	t.Parallel()
	trips := &roundTrips{dir: t.TempDir()}
	var events []any
	for i, name := range memberNames() {
		member := map[string]any{"type": "string", "x-go-name": "Member"}
		object := map[string]any{"type": "object", "properties": map[string]any{name: member}}
		payload := map[string]any{"type": "object", "properties": map[string]any{name: member}, "required": []string{name}}
		events = append(events, map[string]any{"name": fmt.Sprintf("e%d.x", i), "description": "d", "inputSchema": object, "payloadSchema": payload})
		data, err := json.Marshal(map[string]string{name: "v"})
		if err != nil {
			t.Fatal(err)
		}
		for _, typ := range []string{"Payload", "Arguments"} {
			trips.documents = append(trips.documents, document{fmt.Sprintf("%+q", name), fmt.Sprintf("p.E%dX%s", i, typ), data, func(string) bool { return true }})
		}
	}
	file, err := json.Marshal(map[string]any{"version": 1, "package": "p", "events": events})
	if err != nil {
		t.Fatal(err)
	}
	write(t, trips.dir, "e.json", escaped(file))
	trips.requests = []gen.Request{{Dir: trips.dir, Files: []string{"e.json"}, Out: "p", Emit: []string{"types"}}}
	trips.run(t)
}
