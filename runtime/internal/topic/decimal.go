package topic

import (
	"cmp"
	"strconv"
	"strings"
)

// A decimal is an exact JSON number with the value 0.digits × 10^point. The field digits has no leading or trailing
// zeros and is empty for zero. Parsing and comparing take time linear in the length of the text, regardless of the
// exponent.
type decimal struct {
	negative bool
	digits   string
	point    int
}

// parseDecimal parses a JSON number. It returns false if the exponent is not a 32-bit integer.
func parseDecimal(text string) (d decimal, ok bool) {
	d.negative = strings.HasPrefix(text, "-")
	mantissa := strings.TrimPrefix(text, "-")
	if i := strings.IndexAny(mantissa, "eE"); i >= 0 {
		e, err := strconv.ParseInt(mantissa[i+1:], 10, 32)
		if err != nil {
			return decimal{}, false
		}
		d.point, mantissa = int(e), mantissa[:i]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	d.point += len(whole)
	d.digits = whole
	if fraction != "" {
		d.digits = whole + fraction
	}
	significant := strings.TrimLeft(d.digits, "0")
	d.point -= len(d.digits) - len(significant)
	d.digits = strings.TrimRight(significant, "0")
	if d.digits == "" {
		return decimal{}, true
	}
	return d, true
}

// key returns a string that uniquely identifies the number, regardless of its notation.
func (d decimal) key() string {
	if d.digits == "" {
		return "0"
	}
	b := make([]byte, 0, len(d.digits)+12)
	if d.negative {
		b = append(b, '-')
	}
	b = append(b, d.digits...)
	b = append(b, 'e')
	return string(strconv.AppendInt(b, int64(d.point), 10))
}

// compare returns a negative number if d < o, zero if d == o, and a positive number if d > o.
func (d decimal) compare(o decimal) int {
	if c := cmp.Compare(d.sign(), o.sign()); c != 0 || d.digits == "" {
		return c
	}
	c := cmp.Or(cmp.Compare(d.point, o.point), strings.Compare(d.digits, o.digits))
	if d.negative {
		return -c
	}
	return c
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.negative:
		return -1
	}
	return 1
}
