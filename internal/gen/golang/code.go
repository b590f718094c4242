package golang

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// method starts a method with its receiver and name.
func (f *file) method(receiver string, of jen.Code, name string) *jen.Statement {
	return f.Func().Params(jen.Id(receiver).Add(of)).Id(name)
}

// unmarshalJSON adds the method UnmarshalJSON of a type. The method returns result and has the parameters v and b.
func (f *file) unmarshalJSON(of string, result jen.Code) {
	f.method("v", pointer(jen.Id(of)), "UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(jen.Return(result))
}

// marshalJSON adds the method MarshalJSON of a type, whose receiver is v.
func (f *file) marshalJSON(of string, body ...jen.Code) {
	f.method("v", jen.Id(of), "MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(body...)
}

// ctxParam returns the parameter ctx.
func ctxParam() *jen.Statement { return jen.Id("ctx").Qual("context", "Context") }

// pointer returns the pointer type of a type.
func pointer(to jen.Code) *jen.Statement { return jen.Op("*").Add(to) }

// address returns the address of a variable or a composite literal.
func address(of jen.Code) *jen.Statement { return jen.Op("&").Add(of) }

// convert returns a pointer converted to another pointer type.
func convert(to jen.Code, pointerVar string) *jen.Statement {
	return jen.Parens(pointer(to)).Parens(jen.Id(pointerVar))
}

// field returns an element of the composite literal of a struct.
func field(name string, value jen.Code) *jen.Statement { return jen.Id(name).Op(":").Add(value) }

// multiline returns the elements of a composite literal on separate lines, in order. [jen.Dict] would sort them by
// key.
func multiline(elements ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, elements...)
}

// multilineCall returns the arguments of a call on separate lines.
func multilineCall(args ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "(", Close: ")", Separator: ",", Multi: true}, args...)
}

// text returns a string literal. The literal is raw if that avoids escapes, which makes schemas easier to read.
// jennifer has no node for raw strings.
func text(s string) *jen.Statement {
	if !strings.ContainsAny(s, `"\`) || strings.ContainsFunc(s, needsEscape) {
		return jen.Lit(s)
	}
	return jen.Op("`" + s + "`")
}

// needsEscape reports whether r cannot stand in a raw string, or would be invisible there.
func needsEscape(r rune) bool {
	return r == '`' || r == '\r' || source.Hidden(r) && r != '\n' && r != '\t'
}

// constant returns a constant of the model, which is a name or a literal. jennifer has no node for a literal with
// given digits: jen.Lit would write 1e6 as 1e+06.
func constant(code string) *jen.Statement { return jen.Op(code) }
