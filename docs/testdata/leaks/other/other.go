// Package other is promised.
package other

type Page[T any] struct{ Items []T }

type unnamed struct{ Total int }

func (unnamed) Len() int { return 0 }

func New() unnamed { return unnamed{} }
