// Package eventsimpl is called by the code that mcpe-gen generates, and by nothing else: it has what generated types
// read and write JSON with, and the file of the schemas that a generated package publishes. Programs use the generated
// types and package events.
package eventsimpl

// IsAtLeastVersion0_1 is referred to by generated code, so that code generated for a newer
// runtime does not compile against this one.
const IsAtLeastVersion0_1 = true

// NoArguments are the arguments of an event type or a task that has none.
type NoArguments struct{}

// UnmarshalJSON takes an object, as the types of arguments do that have members; that there is none is for the schema to
// say.
func (v *NoArguments) UnmarshalJSON(b []byte) error { return DecodeStruct(b, v) }
