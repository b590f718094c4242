package ir

import (
	"go/token"
	"testing"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// TestGoName is the table of the naming rule.
func TestGoName(t *testing.T) {
	for in, want := range map[string]string{
		"incident.created": "IncidentCreated", "incidentId": "IncidentID", "incident_id": "IncidentID", "redactPII": "RedactPII",
		"userIDs": "UserIDs", "user_ids": "UserIDs", "HTTPServer": "HTTPServer", "http_url": "HTTPURL", "urls": "URLs",
		"+1": "Plus1", "-1": "Minus1", "C#": "CHash", "C++": "CPlusPlus", "a-1": "A1", "@id": "AtID", "$ref": "DollarRef", "branch_rule$created": "BranchRuleCreated", "cost$": "CostDollar", "1$2": "X1_2", "$": "Dollar",
		"type": "Type", "func": "Func", "2fa": "X2fa", "1.5": "X1_5", "2026-07-28": "X2026_07_28", "v1.0": "V1_0", "v10": "V10",
		"P1": "P1", "OPEN": "Open", "IN_PROGRESS": "InProgress", "in progress": "InProgress", "": "Empty", "-": "Minus", "...": "DotDotDot",
		"größe": "Größe", "ähnlich": "Ähnlich", "日本": "X日本", "ß": "Xß", "\U0001F600": "U1F600", "a\u0301": "AU0301", "a\u3164b": "AU3164B", "\uffa0": "UFFA0",
		"_private": "Private", "__": "UnderscoreUnderscore", "text/html": "TextHTML", "a[0]": "AOpenBracket0CloseBracket",
		"UTF8": "UTF8", "utf8": "UTF8", "X-Y": "XY", "[]": "OpenBracketCloseBracket", "sAB": "SAB", "ABs": "ABs",
	} {
		if got := GoName(in); got != want {
			t.Errorf("GoName(%q) = %q, want %q", in, got, want)
		}
	}
}

// FuzzGoName checks that names are valid exported identifiers, and that of two names either the
// identifiers differ or the scope reports the collision.
func FuzzGoName(f *testing.F) {
	for _, s := range []string{"incident.created", "+1", "-1", "", "日本", "a\u0301", "userIDs", "__", "ǆ", "\u2028"} {
		f.Add(s, "x"+s)
	}
	f.Fuzz(func(t *testing.T, a, c string) {
		if !utf8.ValidString(a) || !utf8.ValidString(c) {
			t.Skip("YAML gives valid UTF-8 only")
		}
		for _, s := range []string{a, c} {
			if name := GoName(s); !token.IsIdentifier(name) || !token.IsExported(name) {
				t.Fatalf("GoName(%q) = %q is no exported identifier", s, name)
			}
			if name := "T" + Suffix(s); !token.IsIdentifier(name) {
				t.Fatalf("T + Suffix(%q) = %q is no identifier", s, name)
			}
		}
		if a == c {
			return
		}
		b, names := &builder{}, scope{}
		for _, s := range []string{a, c} {
			b.declareName(names, GoName(s), s, source.InFile("f"))
		}
		if reported := len(b.diags) == 1; reported != (GoName(a) == GoName(c)) {
			t.Fatalf("%q and %q: collision reported: %v", a, c, reported)
		}
	})
}

func TestParseGoType(t *testing.T) {
	for in, want := range map[string]GoType{
		"github.com/google/uuid.UUID": {"github.com/google/uuid", "UUID"},
		"gopkg.in/yaml.v3.Node":       {"gopkg.in/yaml.v3", "Node"},
		"math/big.Int":                {"math/big", "Int"},
		"time.Duration":               {"time", "Duration"},
		"string":                      {"", "string"},
	} {
		got, err := ParseGoType(in)
		if err != nil || got != want || got.String() != in {
			t.Errorf("ParseGoType(%q) = %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "UUID", "uuid.uuid", ".UUID", "a/b", "a b.C", "./x.Y", "../x.Y", "/x.Y", "x/.Y", "a//b.C", "x.Y.", "any", "[]byte", "*math/big.Int", "a\".B"} {
		if got, err := ParseGoType(in); err == nil {
			t.Errorf("ParseGoType(%q) = %v, want an error", in, got)
		}
	}
}
