// Package api is promised. Names that begin with Leak reach what is not, each in its own way.
package api

import (
	"io"
	"iter"

	"leaks.test/hidden"
	"leaks.test/internal/deep"
	"leaks.test/other"
	"unreleased.test"
)

type LeakField struct{ Options *hidden.Options }

type LeakNested struct {
	Deep struct{ Options []hidden.Options }
}

type LeakAlias = hidden.Kind

type LeakAliasOfPointer = *hidden.Plain

type LeakThroughAlias struct{ Kind local }

type local = hidden.Kind

type LeakEmbedded struct{ hidden.Plain }

type LeakEmbeddedAlias struct{ plain }

type plain = hidden.Plain

type LeakPromoted struct{ inner }

type inner struct{}

func (*inner) Kind() hidden.Kind { return 0 }

type LeakPromotedField struct{ core }

type core struct{ Kind hidden.Kind }

type LeakMethod struct{}

func (*LeakMethod) Set(map[hidden.Kind]string) {}

type LeakInterface interface{ Kind() hidden.Kind }

type LeakEmbeddedInterface interface{ hidden.Closer }

type LeakConstraint[T hidden.Number] struct{}

func LeakFuncConstraint[T interface{ ~int | hidden.Number }]() {}

type LeakArgument struct{ Page other.Page[hidden.Kind] }

func LeakParameter(func(iter.Seq2[int, hidden.Kind])) {}

func LeakResult() (chan *hidden.Kind, error) { return nil, nil }

func LeakUnexportedResult() result { return result{} }

type result struct{}

func (result) Next() *middle { return nil }

type middle struct{ Kind hidden.Kind }

var LeakVariable = hidden.Plain{}

const LeakConstant = hidden.Zero

type LeakDefined hidden.Options

type LeakAliasOfBasic struct{ N hidden.Alias }

type LeakInternal struct{ *deep.Server }

type LeakUnreleased struct{}

func (LeakUnreleased) MarshalJSONTo(*unreleased.Encoder) error { return nil }

type LeakGenericAlias[T any] = hidden.List[T]

type LeakArray [2]hidden.Kind

// What follows reaches nothing unpromised: what is not exported is nobody's business.

type Fine struct {
	Page   other.Page[string]
	Reader io.Reader
	kind   hidden.Kind
}

func (f *Fine) set(k hidden.Kind) { f.kind = k }

func (f *Fine) Value() string { return f.kind.String() }

type Sealed interface{ sealed(hidden.Kind) }

type Number int

const One = Number(hidden.Zero) + 1

var Error error = io.EOF

type own struct{ set func(hidden.Kind) }

func Own() *own { return nil }

var _ = (*Fine).set
