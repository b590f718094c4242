// Package eventsimpl supports the types that mcpe-gen generates. It has their JSON codecs, and the file of schemas of
// a generated package. Only generated code calls it. Programs use the generated types and package events.
package eventsimpl

// IsAtLeastVersion0_1 exists in every runtime of version 0.1 or newer. Generated code refers to such a constant, so
// that code for a newer runtime does not compile against this one.
const IsAtLeastVersion0_1 = true

// NoArguments is the type of arguments for an event type or a task without arguments.
type NoArguments struct{}

// UnmarshalJSON accepts any object, like other argument types. The schema rejects unwanted members.
func (v *NoArguments) UnmarshalJSON(b []byte) error { return DecodeStruct(b, v) }
