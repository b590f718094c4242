package wire

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A FieldError is one entry of the errors in an InvalidParams error's data.
type FieldError = events.FieldError

// FieldErrors is an error made of field errors; its JSON form is the data of an InvalidParams error.
type FieldErrors struct {
	Errors []FieldError `json:"errors"`
}

// Error joins the field errors.
func (e *FieldErrors) Error() string {
	parts := make([]string, len(e.Errors))
	for i, f := range e.Errors {
		parts[i] = f.Error()
	}
	return strings.Join(parts, "; ")
}

func invalid(path, message string) *FieldErrors {
	return &FieldErrors{Errors: []FieldError{{Path: path, Message: message}}}
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer makes a JSON Pointer from the names and indexes that lead to a value.
func Pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(t))
	}
	return b.String()
}
