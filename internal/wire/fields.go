package wire

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A FieldError is an entry of errors in the data of an InvalidParams error.
type FieldError = events.FieldError

// FieldErrors is an error that lists invalid fields. Its JSON form is the data of an InvalidParams error.
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

// Pointer returns the JSON Pointer for the names and indexes of a path.
func Pointer(tokens ...string) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteByte('/')
		b.WriteString(pointerEscapes.Replace(t))
	}
	return b.String()
}

var pointerUnescapes = strings.NewReplacer("~1", "/", "~0", "~")

// SplitPointer returns the tokens of a JSON Pointer (RFC 6901). It returns false if the pointer is empty or invalid.
func SplitPointer(pointer string) ([]string, bool) {
	if !strings.HasPrefix(pointer, "/") {
		return nil, false
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		for j := 0; j < len(t); j++ {
			if t[j] == '~' && (j+1 == len(t) || t[j+1] != '0' && t[j+1] != '1') {
				return nil, false
			}
		}
		tokens[i] = pointerUnescapes.Replace(t)
	}
	return tokens, true
}
