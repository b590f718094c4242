package golang

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// startMethod starts the declaration of a method: its receiver and name.
func (f *file) startMethod(receiver string, of jen.Code, name string) *jen.Statement {
	return f.Func().Params(jen.Id(receiver).Add(of)).Id(name)
}

// addUnmarshalJSON adds the method UnmarshalJSON to a type. Its body returns result, an expression that can use the
// receiver v and the parameter b.
func (f *file) addUnmarshalJSON(of string, result jen.Code) {
	f.startMethod("v", pointer(jen.Id(of)), "UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(jen.Return(result))
}

// addMarshalJSON adds the method MarshalJSON to a type. Its receiver is named v.
func (f *file) addMarshalJSON(of string, body ...jen.Code) {
	f.startMethod("v", jen.Id(of), "MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(body...)
}

// ctxParam returns the parameter ctx.
func ctxParam() *jen.Statement { return jen.Id("ctx").Qual("context", "Context") }

// pointer returns a pointer type with the given base type.
func pointer(to jen.Code) *jen.Statement { return jen.Op("*").Add(to) }

// addressOf returns an expression for the address of a variable or a composite literal.
func addressOf(of jen.Code) *jen.Statement { return jen.Op("&").Add(of) }

// convertPointer returns an expression that converts a pointer variable to the type *to.
func convertPointer(to jen.Code, pointerVar string) *jen.Statement {
	return jen.Parens(pointer(to)).Parens(jen.Id(pointerVar))
}

// keyedElement returns an element of a struct literal with its field name.
func keyedElement(name string, value jen.Code) *jen.Statement { return jen.Id(name).Op(":").Add(value) }

// multiline returns the body of a composite literal with one element per line. Unlike [jen.Dict], it does not sort the
// elements.
func multiline(elements ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, elements...)
}

// multilineCall returns the argument list of a call with one argument per line.
func multilineCall(args ...jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "(", Close: ")", Separator: ",", Multi: true}, args...)
}

// stringLiteral returns a Go string literal. It prefers a raw string literal to escapes, so schemas are easier to read.
// Package jennifer does not support raw string literals.
func stringLiteral(s string) *jen.Statement {
	if !strings.ContainsAny(s, `"\`) || strings.ContainsFunc(s, needsEscape) {
		return jen.Lit(s)
	}
	return jen.Op("`" + s + "`")
}

// needsEscape reports whether r is not allowed or not visible in a raw string literal.
func needsEscape(r rune) bool {
	return r == '`' || r == '\r' || source.Hidden(r) && r != '\n' && r != '\t'
}

// constantCode returns code for the name or literal of a constant. It preserves the spelling, unlike jen.Lit, which
// would write 1e6 as 1e+06.
func constantCode(code string) *jen.Statement { return jen.Op(code) }
