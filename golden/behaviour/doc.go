// Package behaviour tests what the generated code of the golden cases does: that JSON read into the
// generated types and written again is the same JSON, and what the types keep and fill in.
package behaviour
