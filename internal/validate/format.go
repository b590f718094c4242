package validate

import (
	"encoding/base64"
	"errors"
	"regexp"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// formats are those that this package judges otherwise than the validator does.
var formats = []*jsonschema.Format{
	dateTime, uri, uriReference, iri, iriReference, uriTemplate, email, idnEmail, hostname, idnHostname, ipv4, duration,
}

// dateTime accepts exactly what events.Time can hold, so that what is valid also decodes.
var dateTime = &jsonschema.Format{Name: "date-time", Validate: func(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := events.ParseTime(text)
	return err
}}

// base64Text is what a []byte of a generated type reads: RFC 4648 with padding and without line ends.
var base64Text = &jsonschema.Decoder{Name: "base64", Decode: func(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errLineEnd
	}
	return base64.StdEncoding.Strict().DecodeString(s)
}}

var errLineEnd = errors.New("has a line end")

// anyContent leaves what a string holds unchecked: only its encoding decides about Go types.
var anyContent = &jsonschema.MediaType{Name: "application/json", Validate: func([]byte) error { return nil }}

// uriTemplate accepts RFC 6570. The validator's own check takes the slash of {/path} for a separator
// of the URI.
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
