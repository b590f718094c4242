package plain

import (
	"strconv"
	"time"
)

// Time formats a time for people, in UTC with seconds, for example 2006-01-02 15:04:05Z.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// Duration formats a duration in the largest unit that represents it exactly, for example 1h or 90s.
func Duration(d time.Duration) string {
	switch {
	case d == 0 || d%time.Second != 0:
		return d.String()
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}
