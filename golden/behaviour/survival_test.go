package behaviour

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	survival "github.com/mcpe-gen/mcpe-gen/golden/survival/want"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// number draws a JSON number of up to 60 digits.
func number(t *rapid.T) string {
	whole := strings.TrimLeft(rapid.StringMatching(`[0-9]{1,40}`).Draw(t, "whole"), "0")
	if whole == "" {
		whole = "0"
	}
	return rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + whole +
		rapid.SampledFrom([]string{"", ".5", ".00000000000000000001", "e3", "E-2"}).Draw(t, "rest")
}

// instant draws an RFC 3339 text with any zone and fraction.
func instant(t *rapid.T) string {
	fraction := rapid.SampledFrom([]string{"", ".1", ".100", ".123456789012"}).Draw(t, "fraction")
	zone := rapid.SampledFrom([]string{"Z", "z", "+00:00", "-00:00", "+05:30", "-11:59", "+14:00"}).Draw(t, "zone")
	return fmt.Sprintf("20%02d-0%d-1%dT%02d:59:0%d%s%s", rapid.IntRange(0, 99).Draw(t, "year"), rapid.IntRange(1, 9).Draw(t, "month"),
		rapid.IntRange(0, 9).Draw(t, "day"), rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 9).Draw(t, "second"), fraction, zone)
}

// anything draws a JSON value.
func anything(t *rapid.T, depth int) string {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
	case 1:
		return number(t)
	case 2:
		return quoted(rapid.String().Draw(t, "text"))
	case 3:
		return quoted(instant(t))
	case 4:
		return "[" + anything(t, depth-1) + "," + anything(t, depth-1) + "]"
	}
	return "{" + quoted(rapid.StringMatching(`[a-zA-Z/~ "<&]{0,5}`).Draw(t, "name")) + ":" + anything(t, depth-1) + "}"
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// TestSurvival draws payloads and proves that a round trip through the generated types changes no
// value: enum values that the schema does not list, members that it does not name where
// additionalProperties is written, numbers of any size, and the zone and digits of a date-time.
func TestSurvival(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := []string{
			`"severity":` + quoted(rapid.OneOf(rapid.SampledFrom([]string{"low", "high"}), rapid.String()).Draw(t, "severity")),
			`"count":` + strconv.FormatInt(rapid.Int64().Draw(t, "count"), 10),
			`"at":` + quoted(instant(t)),
		}
		optional := func(name string, value func() string) {
			if rapid.Bool().Draw(t, "with "+name) {
				members = append(members, quoted(name)+":"+value())
			}
		}
		optional("code", func() string { return strconv.Itoa(rapid.Int().Draw(t, "code")) })
		optional("mode", func() string { return anything(t, 2) })
		optional("exact", func() string { return number(t) })
		optional("huge", func() string {
			return new(big.Int).Exp(big.NewInt(rapid.Int64Range(-9, 9).Draw(t, "base")), big.NewInt(40), nil).String()
		})
		optional("any", func() string { return anything(t, 2) })
		optional("unnamed", func() string { return anything(t, 2) })
		optional("Severity", func() string { return anything(t, 1) }) // differs in case, so it is another member
		optional("nested", func() string { return `{"name":"n","other":` + anything(t, 2) + `}` })
		optional("typed", func() string {
			return `{"name":"n","other":` + strconv.FormatInt(rapid.Int64().Draw(t, "other"), 10) + `}`
		})
		optional("map", func() string { return `{"a":` + quoted(instant(t)) + `}` })
		doc := "{" + strings.Join(members, ",") + "}"

		var v survival.ReadingTakenPayload
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		out, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		want, errWant := eventsimpl.Literal([]byte(doc))
		got, errGot := eventsimpl.Literal(out)
		if errWant != nil || errGot != nil || got != want {
			t.Fatalf("%s\nbecame\n%s (%v, %v)", want, got, errWant, errGot)
		}
	})
}
