package ir

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

func (b *builder) scalar(f *facts, k schematree.Types) shape {
	if format := f.keyword("format"); format != nil {
		if g, ok := b.opts.Formats[format.Text]; ok {
			b.usesGoTypes = true
			return shape{kind: externalShape, goType: g}
		}
	}
	sh := shape{kind: scalarShape, facts: f, base: Float64}
	switch k {
	case schematree.String:
		sh.base = stringKind(f)
	case schematree.Boolean:
		sh.base = Bool
	case schematree.Integer:
		b.checkBounds(f)
		sh.base = Int64
	}
	return sh
}

func stringKind(f *facts) Kind {
	if e := f.keyword("contentEncoding"); e != nil && e.Text == "base64" {
		return Bytes
	}
	for _, p := range f.parts {
		if v := p.Get("format"); v != nil && v.Text == "date-time" {
			return Time
		}
	}
	return String
}

func scalarType(sh *shape) model.Type {
	switch sh.base {
	case Bool:
		return model.Type{Kind: model.Boolean}
	case Int64:
		return numeric(model.Integer, sh.facts)
	case Float64:
		return numeric(model.Number, sh.facts)
	}
	return text(sh.facts)
}

func numeric(kind string, f *facts) model.Type {
	return model.Type{
		Kind: kind, Format: wordOf(f, "format"), Minimum: bound(f, "minimum", 1), Maximum: bound(f, "maximum", -1),
		ExclusiveMinimum: bound(f, "exclusiveMinimum", 1), ExclusiveMaximum: bound(f, "exclusiveMaximum", -1), MultipleOf: bound(f, "multipleOf", 1),
	}
}

func text(f *facts) model.Type {
	return model.Type{
		Kind: model.String, Format: wordOf(f, "format"), ContentEncoding: wordOf(f, "contentEncoding"), Pattern: wordOf(f, "pattern"),
		MinLength: bound(f, "minLength", 1), MaxLength: bound(f, "maxLength", -1),
	}
}

func wordOf(f *facts, keyword string) string {
	if n := f.keyword(keyword); n != nil && n.Kind == source.String {
		return n.Text
	}
	return ""
}

func bound(f *facts, keyword string, sign int) json.Number {
	if n := f.tightestBound(keyword, sign); n != nil {
		return json.Number(n.Text)
	}
	return ""
}

var (
	minInt64 = new(big.Rat).SetInt64(math.MinInt64)
	maxInt64 = new(big.Rat).SetInt64(math.MaxInt64)
)

// exactNumber returns the value of a JSON number. For numbers beyond about 1e20 in magnitude, it returns false and a
// float that has at least the correct sign.
func exactNumber(text string) (*big.Rat, float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > 1e20 {
		return nil, f, false
	}
	if f == 0 {
		return new(big.Rat), 0, true
	}
	r, ok := new(big.Rat).SetString(text)
	return r, f, ok
}

// int64Of returns the value of a JSON number if it is a 64-bit integer.
func int64Of(text string) (int64, bool) {
	r, _, ok := exactNumber(text)
	if !ok || !r.IsInt() || !r.Num().IsInt64() {
		return 0, false
	}
	return r.Num().Int64(), true
}

// checkBounds reports integer schemas that allow values outside the range of int64.
func (b *builder) checkBounds(f *facts) {
	const hint = "x-go-type: encoding/json.Number or x-go-type: math/big.Int holds larger integers"
	low, high := false, false
	for _, k := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} {
		lower, sign := k == "minimum" || k == "exclusiveMinimum", -1
		if lower {
			sign = 1
		}
		v := f.tightestBound(k, sign)
		if v == nil {
			continue
		}
		r, approx, ok := exactNumber(v.Text)
		var within bool
		switch {
		case lower && ok:
			within = r.Cmp(minInt64) >= 0
		case ok:
			within = r.Cmp(maxInt64) <= 0 || k == "exclusiveMaximum" && r.Cmp(new(big.Rat).Add(maxInt64, big.NewRat(1, 1))) <= 0
		default:
			within = lower == (approx > 0)
		}
		if !within {
			b.report(source.New("MCPE205", v.Range, "%s %s is beyond int64", k, v.Text).WithHint(hint))
			return
		}
		low, high = low || lower, high || !lower
	}
	if format := f.keyword("format"); format != nil && (format.Text == "int64" || format.Text == "int32") {
		return
	}
	if !low || !high {
		b.report(source.New("MCPE204", f.node.Range, "the integer has no bounds; its Go type is int64").
			WithHint("say minimum and maximum, or format: int64; " + hint))
	}
}
