package golang

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// method starts a method declaration with a receiver and a name.
func (f *file) method(receiver string, of jen.Code, name string) *jen.Statement {
	return f.Func().Params(jen.Id(receiver).Add(of)).Id(name)
}

// addUnmarshalJSON adds the method UnmarshalJSON to a type. The method returns result, an expression that can use the
// receiver v and the parameter b.
func (f *file) addUnmarshalJSON(of string, result jen.Code) {
	f.method("v", pointer(jen.Id(of)), "UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(jen.Return(result))
}

// addMarshalJSON adds the method MarshalJSON to a type. Its receiver is named v.
func (f *file) addMarshalJSON(of string, body ...jen.Code) {
	f.method("v", jen.Id(of), "MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(body...)
}

// ctxParam returns the parameter ctx.
func ctxParam() *jen.Statement { return jen.Id("ctx").Qual("context", "Context") }

// pointer returns a pointer type with the given base type.
func pointer(to jen.Code) *jen.Statement { return jen.Op("*").Add(to) }

// address returns an expression for the address of a variable or a composite literal.
func address(of jen.Code) *jen.Statement { return jen.Op("&").Add(of) }

// convert returns a conversion of a pointer to another pointer type.
func convert(to jen.Code, pointerVar string) *jen.Statement {
	return jen.Parens(pointer(to)).Parens(jen.Id(pointerVar))
}

// field returns an element of a struct literal.
func field(name string, value jen.Code) *jen.Statement { return jen.Id(name).Op(":").Add(value) }

// multiline returns the elements of a composite literal on separate lines, in order. [jen.Dict] would sort them by
// key.
func multiline(elements ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, elements...)
}

// multilineCall returns the arguments of a call, each on a separate line.
func multilineCall(args ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "(", Close: ")", Separator: ",", Multi: true}, args...)
}

// text returns a string literal. It uses a raw string literal if that avoids escapes, because schemas are then easier
// to read. The package jennifer does not support raw strings.
func text(s string) *jen.Statement {
	if !strings.ContainsAny(s, `"\`) || strings.ContainsFunc(s, needsEscape) {
		return jen.Lit(s)
	}
	return jen.Op("`" + s + "`")
}

// needsEscape reports whether r is invalid or invisible in a raw string.
func needsEscape(r rune) bool {
	return r == '`' || r == '\r' || source.Hidden(r) && r != '\n' && r != '\t'
}

// constant returns the name or literal of a constant as code. It does not use jen.Lit, which would write 1e6 as 1e+06.
func constant(code string) *jen.Statement { return jen.Op(code) }
