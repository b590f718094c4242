package validate

import (
	"errors"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// formats are those that this package judges otherwise than the validator does.
var formats = []*jsonschema.Format{dateTime, uriTemplate}

// dateTime accepts exactly what events.Time can hold, so that what is valid also decodes.
var dateTime = &jsonschema.Format{Name: "date-time", Validate: func(v any) error {
	text, ok := v.(string)
	if !ok {
		return nil
	}
	_, err := events.ParseTime(text)
	return err
}}

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
		literal  = `[^\x00-\x20\x7f"'%<>\\^` + "`" + `{|}]|` + escaped
		char     = `(?:[A-Za-z0-9_]|` + escaped + `)`
		variable = char + `(?:\.?` + char + `)*(?:\*|:[1-9][0-9]{0,3})?`
	)
	return regexp.MustCompile(`^(?:` + literal + `|\{[+#./;?&=,!@|]?` + variable + `(?:,` + variable + `)*\})*$`)
}()
