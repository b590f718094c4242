// Package cron parses cron expressions and computes their next due time in a time zone.
//
// Start with [Parse]. An expression has five fields: minute, hour, day of month, month and day of week. A sixth field
// for seconds can precede them. An expression can also be one of [Presets]. A field is a list of values, names (jan,
// mon), ranges and steps. Other syntax is not supported, so an untrusted expression uses little memory. The package
// makes no compatibility promise.
package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Presets lists the names of the predefined expressions (MCPE-DEL-2).
var Presets = []string{"@hourly", "@daily", "@weekly", "@monthly", "@yearly", "@annually"}

var presets = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *",
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

// maxLength is the maximum length of an expression in bytes.
const maxLength = 256

// A Schedule is a parsed cron expression.
type Schedule struct {
	// In each field, bit n is set if the value n matches.
	second, minute, hour, day, month, weekday uint64
	anyDay, anyWeekday                        bool
	everyHour                                 bool
}

type field struct {
	name     string
	min, max int
	names    []string // names of the values from min
}

var fields = [...]field{
	{"second", 0, 59, nil},
	{"minute", 0, 59, nil},
	{"hour", 0, 23, nil},
	{"day of month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// Parse parses an expression. The error names the invalid field and can be shown to users.
func Parse(expression string) (*Schedule, error) {
	if len(expression) > maxLength {
		return nil, fmt.Errorf("the expression is longer than %d bytes", maxLength)
	}
	text := strings.TrimSpace(expression)
	if strings.HasPrefix(text, "@") {
		p, ok := presets[strings.ToLower(text)]
		if !ok {
			return nil, fmt.Errorf("%q is not one of %s", text, strings.Join(Presets, ", "))
		}
		text = p
	}
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	switch len(parts) {
	case 5:
		parts = append([]string{"0"}, parts...)
	case 6:
	default:
		return nil, fmt.Errorf("an expression has 5 fields, or 6 with seconds, not %d", len(parts))
	}
	s := &Schedule{}
	sets := [...]*uint64{&s.second, &s.minute, &s.hour, &s.day, &s.month, &s.weekday}
	for i, f := range fields {
		set, err := f.parse(parts[i])
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", f.name, parts[i], err)
		}
		*sets[i] = set
	}
	if s.weekday&(1<<7) != 0 {
		s.weekday = s.weekday&^(1<<7) | 1 // 7 is also Sunday
	}
	// A field of days restricts unless it begins with a star; if both restrict, either may match.
	s.anyDay, s.anyWeekday = strings.HasPrefix(parts[3], "*"), strings.HasPrefix(parts[5], "*")
	s.everyHour = s.hour == 1<<24-1
	if !s.hasDate() {
		return nil, errors.New("the expression matches no date that exists")
	}
	return s, nil
}

func (f field) parse(text string) (set uint64, err error) {
	for _, item := range strings.Split(text, ",") {
		span, step, stepped := strings.Cut(item, "/")
		every := 1
		if stepped {
			if every, err = parseNumber(step); err != nil || every == 0 {
				return 0, fmt.Errorf("%q is not a step", step)
			}
		}
		from, to := f.min, f.max
		if span == "*" && f.max == 7 {
			to = 6
		}
		if span != "*" {
			first, last, ranged := strings.Cut(span, "-")
			if from, err = f.value(first); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if to, err = f.value(last); err != nil {
					return 0, err
				}
				if to < from {
					return 0, fmt.Errorf("the range %q ends before it begins", span)
				}
			case !stepped:
				to = from
			}
		}
		for v := from; v <= to; v += every {
			set |= 1 << v
		}
	}
	return set, nil
}

func (f field) value(text string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, nil
		}
	}
	v, err := parseNumber(text)
	if err != nil || v < f.min || v > f.max {
		return 0, fmt.Errorf("%q is not from %d to %d", text, f.min, f.max)
	}
	return v, nil
}

// parseNumber parses a number with at most four digits, which cannot overflow.
func parseNumber(text string) (int, error) {
	if len(text) == 0 || len(text) > 4 || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.Atoi(text)
}

// monthLengths contains the number of days in each month of a leap year.
var monthLengths = [...]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// hasDate reports whether at least one date matches. For example, February 30 does not exist.
func (s *Schedule) hasDate() bool {
	if s.anyDay || !s.anyWeekday {
		return true
	}
	for m := 1; m <= 12; m++ {
		if s.month&(1<<m) != 0 && s.day&(1<<(monthLengths[m]+1)-1)&^1 != 0 {
			return true
		}
	}
	return false
}
