package cron

import (
	"math/bits"
	"time"
)

// maxDays is the length in days of a period in which every expression is due at least once. Up to eight years can pass
// between two leap days.
const maxDays = 366*8 + 2

// Next returns the first time after t when the expression is due in loc. It returns the zero time if that is after the
// year 9999.
//
// When daylight saving time begins, a skipped time is due later by the amount that the clock moves forward (RFC 5545,
// section 3.3.5). When it ends, a time that occurs twice is due only the first time. An expression that matches every
// hour specifies intervals rather than times of day, so it is due in both repeated hours.
func (s *Schedule) Next(t time.Time, loc *time.Location) time.Time {
	local := t.In(loc)
	y, m, d := local.Date()
	// Start a day earlier, because a skipped time that moved past midnight belongs to the previous day.
	for i := -1; i < maxDays; i++ {
		day := time.Date(y, m, d+i, 12, 0, 0, 0, time.UTC)
		if day.Year() > 9999 {
			break
		}
		if !s.onDay(day) {
			continue
		}
		if at := s.nextOnDate(day, t, loc); !at.IsZero() {
			return at
		}
	}
	return time.Time{}
}

func (s *Schedule) onDay(day time.Time) bool {
	if s.month&(1<<day.Month()) == 0 {
		return false
	}
	inMonth, inWeek := s.day&(1<<day.Day()) != 0, s.weekday&(1<<day.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// nextOnDate returns the first matching time after t on the date, or the zero time.
func (s *Schedule) nextOnDate(day, t time.Time, loc *time.Location) (first time.Time) {
	y, m, d := day.Date()
	for h := range 24 {
		if s.hour&(1<<h) == 0 {
			continue
		}
		hour := time.Date(y, m, d, h, 0, 0, 0, time.UTC)
		for _, pass := range s.passes(hour, loc) {
			if !pass.last().After(t) {
				continue
			}
			at := s.nextInPass(pass, t)
			if !at.IsZero() && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first
}

// A pass is one occurrence of an hour on the clock. The hour field is the civil time, represented in UTC. The resolve
// function converts a civil time within the hour to an instant.
type pass struct {
	hour    time.Time
	resolve func(civil time.Time) (time.Time, bool)
}

func (p pass) last() time.Time {
	at, ok := p.resolve(p.hour.Add(time.Hour - time.Second))
	if !ok {
		// The end of the hour is not in this pass; let nextInPass look.
		return time.Unix(1<<60, 0)
	}
	return at
}

// passes returns the passes for an hour. There are two if the hour is repeated and the expression matches every hour,
// and one otherwise.
func (s *Schedule) passes(hour time.Time, loc *time.Location) []pass {
	before, after := utcOffset(hour.Add(-24*time.Hour), loc), utcOffset(hour.Add(25*time.Hour), loc)
	if before == after {
		return []pass{{hour, func(civil time.Time) (time.Time, bool) { return civil.Add(-before), true }}}
	}
	once := pass{hour, func(civil time.Time) (time.Time, bool) {
		for _, o := range [...]time.Duration{before, after} {
			if at := civil.Add(-o); utcOffset(at, loc) == o {
				return at, true
			}
		}
		return civil.Add(-before), true // the clock skips this time
	}}
	if !s.everyHour || before < after {
		return []pass{once}
	}
	again := pass{hour, func(civil time.Time) (time.Time, bool) {
		at := civil.Add(-after)
		return at, utcOffset(at, loc) == after && utcOffset(civil.Add(-before), loc) == before
	}}
	return []pass{once, again}
}

// utcOffset returns the offset of loc from UTC at the given instant.
func utcOffset(at time.Time, loc *time.Location) time.Duration {
	_, seconds := at.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}

// nextInPass returns the first matching time after t within the pass, or the zero time.
func (s *Schedule) nextInPass(p pass, t time.Time) time.Time {
	for minutes := s.minute; minutes != 0; minutes &= minutes - 1 {
		minute := p.hour.Add(time.Duration(bits.TrailingZeros64(minutes)) * time.Minute)
		if at, ok := p.resolve(minute.Add(59 * time.Second)); ok && !at.After(t) {
			continue
		}
		for seconds := s.second; seconds != 0; seconds &= seconds - 1 {
			at, ok := p.resolve(minute.Add(time.Duration(bits.TrailingZeros64(seconds)) * time.Second))
			if ok && at.After(t) {
				return at
			}
		}
	}
	return time.Time{}
}
