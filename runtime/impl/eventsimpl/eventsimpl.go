// Package eventsimpl supports the types that mcpe-gen generates. It implements their JSON codecs and reads the schema
// file of a generated package. Only generated code calls it. Programs use the generated types and package events.
package eventsimpl

// IsAtLeastVersion0_1 is declared in all runtimes of version 0.1 or later. Generated code refers to such a constant, so
// code generated for a later runtime does not compile with this one.
const IsAtLeastVersion0_1 = true

// NoArguments is the arguments type of an event type or task without arguments.
type NoArguments struct{}

// UnmarshalJSON accepts any object, like other arguments types. The schema rejects unwanted members.
func (v *NoArguments) UnmarshalJSON(b []byte) error { return DecodeStruct(b, v) }
