package breaking

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// The rules here concern Go types that the author chose by x-go-type or in the configuration. A schema cannot tell
// which values such a type decodes.

// payloadGoType is the ID of the rule that replaces a strict rule for Go types chosen by the author.
const payloadGoType = "PAYLOAD_GO_TYPE_OUTGROWN"

// chosenType returns the Go type that the author of the old version chose for the changed value. It also reports
// whether the type may reject the new values.
func chosenType(s, now side, change evolve.Change) (string, bool) {
	if change.Feature != evolve.PayloadSchema || change.Category != evolve.Strict {
		return "", false
	}
	tokens, _ := wire.SplitPointer(change.Path)
	here := []*source.Node{s.Payload}
	there, exact := locate(now.of.Set, now.Payload, change.Path)
	for {
		views := s.of.Set.Views(here...)
		if g, ok := s.goType(views, false); ok {
			return g.String(), !decodesAll(g) && (!exact || !holdsNumbers(g, now.of.Set.Views(there)))
		}
		if len(tokens) == 0 {
			return "", false
		}
		n := stepLength(tokens)
		if here = subschemas(views, tokens[:n]...); len(here) == 0 {
			return "", false
		}
		tokens = tokens[n:]
	}
}

// goType returns the Go type that the author chose for the values of a schema with the given views. For inputs, it
// ignores types of formats that the runtime asserts.
func (s side) goType(views []*source.Node, input bool) (ir.GoType, bool) {
	for _, view := range views {
		if g, err := ir.ParseGoType(view.Word("x-go-type")); err == nil {
			return g, true
		}
	}
	for _, view := range views {
		format := view.Word("format")
		if g, ok := s.of.Go.Formats[format]; ok && !(input && slices.Contains(schematree.Formats, format)) {
			return g, true
		}
	}
	return ir.GoType{}, false
}

// decodesAll reports whether a type decodes all JSON values, or all values of one JSON type. Other rules compare JSON
// types.
func decodesAll(g ir.GoType) bool {
	switch g.Name {
	case "string", "bool", "any":
		return g.Path == ""
	}
	return g == ir.RawMessage || g == ir.GoType{Path: "encoding/json", Name: "Number"} || g == ir.GoType{Path: "math/big", Name: "Int"}
}

// holdsNumbers reports whether g is a Go number type that can represent all values of the schema. The schema must list
// its values or have two bounds.
func holdsNumbers(g ir.GoType, views []*source.Node) bool {
	r, ok := numberTypes[g.Name]
	if !ok || g.Path != "" {
		return false
	}
	low, high, listed := false, false, false
	for _, view := range views {
		for _, m := range view.Members {
			values := []*source.Node{m.Value}
			switch m.Key {
			case "minimum", "exclusiveMinimum":
				low = true
			case "maximum", "exclusiveMaximum":
				high = true
			case "const":
				listed = true
			case "enum":
				listed, values = true, m.Value.Items
			default:
				continue
			}
			for _, v := range values {
				if n, ok := new(big.Rat).SetString(v.Text); v.Kind == source.Number && (!ok || n.Cmp(r.low) < 0 || n.Cmp(r.high) > 0) {
					return false
				}
			}
		}
	}
	return listed || low && high
}

// numberTypes maps Go's number types to their ranges.
var numberTypes = map[string]struct{ low, high *big.Rat }{
	"int": signed(64), "int8": signed(8), "int16": signed(16), "int32": signed(32), "int64": signed(64), "rune": signed(32),
	"uint": unsigned(64), "uint8": unsigned(8), "uint16": unsigned(16), "uint32": unsigned(32), "uint64": unsigned(64), "byte": unsigned(8),
	"float64": {new(big.Rat).SetFloat64(-math.MaxFloat64), new(big.Rat).SetFloat64(math.MaxFloat64)},
	"float32": {new(big.Rat).SetFloat64(-math.MaxFloat32), new(big.Rat).SetFloat64(math.MaxFloat32)},
}

func signed(bits uint) struct{ low, high *big.Rat } {
	half := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return struct{ low, high *big.Rat }{new(big.Rat).SetInt(new(big.Int).Neg(half)), new(big.Rat).SetInt(half.Sub(half, big.NewInt(1)))}
}

func unsigned(bits uint) struct{ low, high *big.Rat } {
	all := new(big.Int).Lsh(big.NewInt(1), bits)
	return struct{ low, high *big.Rat }{new(big.Rat), new(big.Rat).SetInt(all.Sub(all, big.NewInt(1)))}
}

// inputGoTypeChanged reports arguments for which the author chose a new or different Go type.
func inputGoTypeChanged(old, new side, report func(source.Range, source.Diagnostic)) {
	old.in.walk(old, new, "argument types", func(w *walk) {
		w.compare = func(p *schemaPair) ([]remark, bool) { return chosenRemark(old, new, p.before, p.after) }
	}).run(old.Input, new.Input, report)
}

// chosenRemark compares the Go types that the authors chose for a value. inside is false if the author chose a Go type
// for the new value, because that type also decodes the nested values.
func chosenRemark(old, new side, before, after value) (found []remark, inside bool) {
	is, chosen := new.goType(after.views, true)
	if !chosen {
		return nil, true
	}
	was, had := old.goType(before.views, true)
	words := fmt.Sprintf("is read as %s now", is)
	if had {
		words = fmt.Sprintf("was read as %s and is read as %s", was, is)
	}
	if was == is || decodesAll(is) || holdsNumbers(is, after.views) {
		return nil, false
	}
	return []remark{{"", new.of.label(nameRange(after.schemas[0])), func(path string) string {
		if path == "" {
			return "" // the top-level arguments object is not an argument
		}
		return fmt.Sprintf("argument %q %s, which may refuse what the schema allows", path[1:], words)
	}}}, false
}
