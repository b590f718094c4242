// Package hidden promises nothing.
package hidden

import "io"

type Kind int

func (Kind) String() string { return "" }

type Options struct{ Kind Kind }

type List[T any] []T

type Number interface{ ~int | ~int64 }

type Alias = int

type Plain struct{ Name string }

func (Plain) Close() error { return nil }

const Zero Kind = 0

type Closer interface{ io.Closer }
