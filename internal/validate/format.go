package validate

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// formatOverrides lists the formats that this package checks differently from the validator.
var formatOverrides = []*jsonschema.Format{
	dateTime, uri, uriReference, iri, iriReference, uriTemplate, email, idnEmail, hostname, idnHostname, ipv4Format, durationFormat,
}

// dateTime accepts exactly the values that events.Time can represent, so every valid value can be decoded.
var dateTime = &jsonschema.Format{Name: "date-time", Validate: func(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := events.ParseTime(text)
	return err
}}

// base64Text accepts the encoding of a []byte in a generated type: RFC 4648 with padding and without line ends.
var base64Text = &jsonschema.Decoder{Name: "base64", Decode: func(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errLineEnd
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}}

var errLineEnd = errors.New("has a line end")

// anyContent accepts any content in a string, because only the encoding affects Go types.
var anyContent = &jsonschema.MediaType{Name: "application/json", Validate: func([]byte) error { return nil }}

// uriTemplate accepts RFC 6570. The validator's own check treats the slash in {/path} as a path separator.
var uriTemplate = &jsonschema.Format{Name: "uri-template", Validate: func(v any) error {
	if text, ok := v.(string); ok && !templateForm.MatchString(text) {
		return errTemplate
	}
	return nil
}}

var errTemplate = errors.New("is not a URI template of RFC 6570")

var templateForm = func() *regexp.Regexp {
	const (
		escaped  = `%[0-9A-Fa-f]{2}`
		literal  = `[^\x00-\x20\x7f"%<>\\^` + "`" + `{|}]|` + escaped
		char     = `(?:[A-Za-z0-9_]|` + escaped + `)`
		variable = char + `(?:\.?` + char + `)*(?:\*|:[1-9][0-9]{0,3})?`
	)
	return regexp.MustCompile(`^(?:` + literal + `|\{[+#./;?&=,!@|]?` + variable + `(?:,` + variable + `)*\})*$`)
}()
