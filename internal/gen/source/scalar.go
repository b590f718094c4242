package source

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

var (
	jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	// otherNumber matches numbers that are valid in a version of YAML but not in JSON.
	otherNumber = regexp.MustCompile(`^[-+]?(0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|\.[0-9][0-9_]*([eE][-+]?[0-9]+)?|\.(inf|Inf|INF|nan|NaN|NAN))$`)
)

// plainScalar returns the kind and text of an unquoted scalar. For a number that is not valid in JSON, it also returns
// an error message.
func plainScalar(text string) (Kind, string, string) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return Null, "", ""
	case "true", "True", "TRUE":
		return Bool, "true", ""
	case "false", "False", "FALSE":
		return Bool, "false", ""
	}
	if jsonNumber.MatchString(text) {
		return Number, text, numberFault(text)
	}
	if otherNumber.MatchString(text) {
		return Number, text, fmt.Sprintf("%s is not a number of JSON", text)
	}
	return String, text, ""
}

// numberFault returns an error message if a JSON number is too large, too small or too long, or "".
func numberFault(text string) string {
	if len(text) > maxNumber {
		return fmt.Sprintf("a number of %d characters; at most %d are read", len(text), maxNumber)
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(text[i+1:]); err != nil || e > maxNumber || e < -maxNumber {
			return fmt.Sprintf("%s has an exponent beyond %d", text, maxNumber)
		}
	}
	// JSON parsers commonly represent numbers as float64.
	if v, err := strconv.ParseFloat(text, 64); err != nil {
		return fmt.Sprintf("%s is larger than a float64 can hold, which programs that read JSON use", text)
	} else if v == 0 && strings.ContainsAny(strings.FieldsFunc(text, func(r rune) bool { return r == 'e' || r == 'E' })[0], "123456789") {
		return fmt.Sprintf("%s is nearer to zero than a float64 can be, which programs that read JSON use", text)
	}
	return ""
}

// numberHint suggests what to write instead of a number that is not valid in JSON.
func numberHint(text string) string {
	quoted := fmt.Sprintf("quote it if it is a string: %q", text)
	digits := strings.ReplaceAll(strings.TrimPrefix(text, "+"), "_", "")
	if !strings.Contains(digits, ".") {
		base := 10
		if strings.ContainsAny(digits, "xXoObB") {
			base = 0
		}
		if v, err := strconv.ParseInt(digits, base, 64); err == nil {
			if octal, ok := parseOldOctal(digits); ok && octal != v {
				return fmt.Sprintf("write %d, or %d if octal is meant, or %s", v, octal, quoted)
			}
			return fmt.Sprintf("write %d, or %s", v, quoted)
		}
	}
	return quoted
}

// parseOldOctal parses digits with a leading zero as an octal number, as in YAML 1.1.
func parseOldOctal(digits string) (int64, bool) {
	if !strings.HasPrefix(strings.TrimPrefix(digits, "-"), "0") {
		return 0, false
	}
	v, err := strconv.ParseInt(digits, 8, 64)
	return v, err == nil
}
