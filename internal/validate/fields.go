package validate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/mcpe-gen/mcpe-gen/internal/pattern"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// fieldErrors returns at most MaxFields leaf causes of e, sorted and without duplicates.
func fieldErrors(e *jsonschema.ValidationError) []events.FieldError {
	out := leaves(e)
	slices.SortFunc(out, func(a, b events.FieldError) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	out = slices.Compact(out)
	if len(out) > MaxFields {
		out = out[:MaxFields]
	}
	return out
}

func leaves(e *jsonschema.ValidationError) []events.FieldError {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return alternativeErrors(e)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return alternativeErrors(e)
		}
	case *kind.PropertyNames:
		return []events.FieldError{{Path: at(e, k.Property), Message: nameMessage(e)}}
	case *kind.Contains, *kind.MinContains, *kind.MaxContains, *kind.Not, *kind.ContentSchema:
		// The causes explain why a particular item or subschema failed, which does not help the reader.
		return leafErrors(e)
	}
	if len(e.Causes) == 0 {
		return leafErrors(e)
	}
	var out []events.FieldError
	for _, cause := range e.Causes {
		out = append(out, leaves(cause)...)
	}
	return out
}

// alternativeErrors explains why an anyOf or oneOf failed. It returns the errors of the branch that was probably
// intended. This is the branch with the fewest errors in types, constants and enums, which distinguish variants. If
// several branches are equally likely, it returns only their common type error.
func alternativeErrors(e *jsonschema.ValidationError) []events.FieldError {
	best, meant := -1, []*jsonschema.ValidationError(nil)
	for _, branch := range e.Causes {
		switch n := distinctions(branch); {
		case best < 0 || n < best:
			best, meant = n, []*jsonschema.ValidationError{branch}
		case n == best:
			meant = append(meant, branch)
		}
	}
	if len(meant) == 1 {
		return leaves(meant[0])
	}
	if types, ok := commonTypes(e, meant); ok {
		return []events.FieldError{types}
	}
	return []events.FieldError{{Path: at(e), Message: "matches none of the alternatives"}}
}

// nameMessage returns the message for a member name that is not allowed. It includes the cause only if a name must be a
// valid pattern, as in patternProperties.
func nameMessage(e *jsonschema.ValidationError) string {
	for len(e.Causes) == 1 {
		e = e.Causes[0]
	}
	if k, ok := e.ErrorKind.(*kind.Format); ok && k.Want == "regex" {
		return message(k)
	}
	return "is not an allowed name"
}

func distinctions(e *jsonschema.ValidationError) int {
	switch e.ErrorKind.(type) {
	case *kind.Type, *kind.Const, *kind.Enum:
		return 1
	}
	n := 0
	for _, cause := range e.Causes {
		n += distinctions(cause)
	}
	return n
}

// commonTypes merges the errors of branches if all branches reject the type of the value.
func commonTypes(e *jsonschema.ValidationError, branches []*jsonschema.ValidationError) (events.FieldError, bool) {
	var got string
	var want []string
	for _, branch := range branches {
		for len(branch.Causes) == 1 {
			branch = branch.Causes[0]
		}
		k, ok := branch.ErrorKind.(*kind.Type)
		if !ok || len(branch.InstanceLocation) != len(e.InstanceLocation) {
			return events.FieldError{}, false
		}
		got = k.Got
		for _, t := range k.Want {
			if !slices.Contains(want, t) {
				want = append(want, t)
			}
		}
	}
	return events.FieldError{Path: at(e), Message: typeMessage(got, want)}, true
}

func typeMessage(got string, want []string) string {
	return "is " + got + ", want " + strings.Join(want, " or ")
}

func at(e *jsonschema.ValidationError, more ...string) string {
	return wire.Pointer(e.InstanceLocation...) + wire.Pointer(more...)
}

// leafErrors returns the errors for a leaf cause. The messages do not contain the caller's values or error texts from
// libraries.
func leafErrors(e *jsonschema.ValidationError) []events.FieldError {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		return forEach(e, k.Missing, "is required")
	case *kind.DependentRequired:
		return forEach(e, k.Missing, "is required with "+truncate(k.Prop))
	case *kind.Dependency:
		return forEach(e, k.Missing, "is required with "+truncate(k.Prop))
	case *kind.AdditionalProperties:
		return forEach(e, k.Properties, "is not allowed")
	}
	return []events.FieldError{{Path: at(e), Message: message(e.ErrorKind)}}
}

func forEach(e *jsonschema.ValidationError, members []string, message string) []events.FieldError {
	out := make([]events.FieldError, len(members))
	for i, m := range members {
		out[i] = events.FieldError{Path: at(e, m), Message: message}
	}
	return out
}

func message(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return typeMessage(k.Got, k.Want)
	case *kind.Enum:
		return oneOf(k.Want)
	case *kind.Const:
		return oneOf([]any{k.Want})
	case *kind.ContentEncoding:
		return "is not valid " + k.Want
	case *kind.Format:
		if fault := (*pattern.SyntaxError)(nil); errors.As(k.Err, &fault) {
			return "is not a regular expression of ECMA-262: " + truncate(fault.Error())
		}
		return "is not a valid " + k.Want
	case *kind.Pattern:
		return "does not match " + truncate(k.Want)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items", k.Want)
	case *kind.AdditionalItems:
		return "has too many items"
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("has equal items at %d and %d", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item of the required kind"
	case *kind.MinContains:
		return fmt.Sprintf("has fewer than %d items of the required kind", k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("has more than %d items of the limited kind", k.Want)
	case *kind.OneOf:
		return "matches more than one of the alternatives"
	case *kind.Not:
		return "has a form that is excluded"
	case *kind.FalseSchema:
		return "is not allowed"
	}
	return "is not valid"
}

func oneOf(want []any) string {
	texts := make([]string, len(want))
	for i, v := range want {
		text, err := json.Marshal(v)
		if err != nil {
			return "is not one of the allowed values"
		}
		texts[i] = string(text)
	}
	if len(texts) == 1 {
		return "must be " + truncate(texts[0])
	}
	return "must be one of " + truncate(strings.Join(texts, ", "))
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return truncate(r.Num().String())
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}

// truncate truncates long texts from the schema.
func truncate(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
