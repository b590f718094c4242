package admin

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// A chartSet contains the figures and charts of an hour, and a table for readers who cannot see the charts.
type chartSet struct {
	From, To string // the first and the last minute, as hh:mm
	Whole    operator.Minute
	Share    string // of failures, as a percentage
	P50, P95 string
	P99      string
	Behind   string
	Charts   []chart // empty if nothing happened
	Rows     []row
}

// A row is the table row for one minute.
type row struct {
	At                 time.Time
	Attempts, Failures int64
	P50, P95, P99      string
	Behind             string
}

// A chart is an SVG of 340 by 150 units. Each unit is about one pixel, regardless of the page's width.
type chart struct {
	Name, Title, Words string
	Key                []legendEntry
	Levels             []level // of the vertical axis, from the bottom
	Times              []label // of the horizontal one
	Marks              []mark
}

// A legendEntry is an entry in a chart's legend. It describes the marks of one class.
type legendEntry struct{ Class, Text string }

type label struct {
	X      string
	Anchor string
	Text   string
}

type level struct{ Y, TextY, Text string }

// A mark is a path.
type mark struct{ Class, Path string }

// Coordinates in a chart.
const (
	left, right, top, bottom = 46.0, 338.0, 12.0, 124.0

	slots = 60
	step  = (right - left) / slots
)

// draw returns the charts of an activity, which must have at least one minute.
func draw(a *operator.Activity) *chartSet {
	n := len(a.Minutes)
	p := &chartSet{From: formatHour(a.Minutes[0].At), To: formatHour(a.Minutes[n-1].At), Whole: a.Whole, Share: formatShare(a.Whole.Failures, a.Whole.Attempts),
		P50: formatPercentile(a.Whole.P50), P95: formatPercentile(a.Whole.P95), P99: formatPercentile(a.Whole.P99), Behind: "–"}
	if a.Whole.Behind != nil {
		p.Behind = formatCount(*a.Whole.Behind)
	}
	var most, slowest, latest operator.Minute // by attempts, by p99, and by entries behind
	for _, m := range a.Minutes {
		r := row{At: m.At, Attempts: m.Attempts, Failures: m.Failures, P50: formatPercentile(m.P50), P95: formatPercentile(m.P95), P99: formatPercentile(m.P99), Behind: "–"}
		if m.Attempts > most.Attempts {
			most = m
		}
		if m.P99 > slowest.P99 {
			slowest = m
		}
		if m.Behind != nil {
			r.Behind = formatCount(*m.Behind)
			if *m.Behind > behind(latest) {
				latest = m
			}
		}
		if m.Attempts > 0 || behind(m) > 0 {
			p.Rows = append(p.Rows, r)
		}
	}
	if len(p.Rows) == 0 {
		return p
	}
	when := fmt.Sprintf("From %s to %s UTC", p.From, p.To)
	first := slots - n
	p.Charts = []chart{
		attempts(a, first, axisMaximum(float64(most.Attempts)),
			fmt.Sprintf("%s: %s, of which %s failed (%s); at most %s in a minute, at %s.", when, countNoun(a.Whole.Attempts, "attempt"), formatCount(a.Whole.Failures),
				p.Share, formatCount(most.Attempts), formatHour(most.At))),
		latency(a, first, axisMaximum(max(slowest.P99.Seconds()*1000, 1)),
			fmt.Sprintf("%s: half of the attempts took up to %s, 95 %% up to %s, 99 %% up to %s; the slowest minute was %s, with 99 %% up to %s.", when, p.P50, p.P95, p.P99,
				formatHour(slowest.At), formatPercentile(slowest.P99))),
		backlog(a, first, axisMaximum(float64(behind(latest))),
			fmt.Sprintf("%s: the slowest subscription is behind by %s now; at most by %s, at %s.", when, entries(a.Whole.Behind), formatCount(behind(latest)), formatHour(latest.At))),
	}
	if a.Whole.Attempts == 0 {
		p.Charts[0].Words, p.Charts[1].Words = when+": no attempts.", when+": no attempts."
	}
	if behind(latest) == 0 {
		p.Charts[2].Words = when + ": no subscription was behind when it was looked at, once a minute."
	}
	for i := range p.Charts {
		p.Charts[i].Times = timeLabels(a.Minutes[n-1].At)
	}
	return p
}

func behind(m operator.Minute) int64 {
	if m.Behind == nil {
		return 0
	}
	return *m.Behind
}

func attempts(a *operator.Activity, first int, high float64, words string) chart {
	c := chart{Name: "attempts", Title: "Attempts per minute", Words: words, Levels: levels(high, axisLabel),
		Key: []legendEntry{{"good", "accepted"}, {"bad", "failed, the lower part"}}}
	var accepted, failed strings.Builder
	for i, m := range a.Minutes {
		split := height(float64(m.Failures), high)
		if m.Failures > 0 {
			split = min(split, bottom-2) // visible next to thousands
			addBar(&failed, first+i, bottom, split)
		}
		if m.Attempts > m.Failures {
			addBar(&accepted, first+i, split, min(height(float64(m.Attempts), high), split-1))
		}
	}
	c.Marks = []mark{{"bar good", accepted.String()}, {"bar bad", failed.String()}}
	return c
}

func latency(a *operator.Activity, first int, high float64, words string) chart {
	c := chart{Name: "latency", Title: "Time to the answer", Words: words, Key: []legendEntry{{"p50", "50 %"}, {"p95", "95 %"}, {"p99", "99 %"}},
		Levels: levels(high, func(ms float64) string { return formatDuration(time.Duration(ms * float64(time.Millisecond))) })}
	for _, l := range []struct {
		class string
		of    func(operator.Minute) time.Duration
	}{
		{"p99", func(m operator.Minute) time.Duration { return m.P99 }},
		{"p95", func(m operator.Minute) time.Duration { return m.P95 }},
		{"p50", func(m operator.Minute) time.Duration { return m.P50 }},
	} {
		c.Marks = append(c.Marks, mark{"line " + l.class, stepLine(a, first, high, func(m operator.Minute) (float64, bool) {
			return l.of(m).Seconds() * 1000, l.of(m) > 0
		})})
	}
	return c
}

func backlog(a *operator.Activity, first int, high float64, words string) chart {
	c := chart{Name: "backlog", Title: "Entries behind", Words: words, Levels: levels(high, axisLabel), Key: []legendEntry{{"held", "the slowest webhook subscription"}}}
	c.Marks = []mark{{"line held", stepLine(a, first, high, func(m operator.Minute) (float64, bool) { return float64(behind(m)), m.Behind != nil })}}
	return c
}

// stepLine returns the path of a line with a horizontal step for each minute. Missing values are gaps in the line.
func stepLine(a *operator.Activity, first int, high float64, of func(operator.Minute) (float64, bool)) string {
	var b strings.Builder
	down := false
	for i, m := range a.Minutes {
		v, ok := of(m)
		if !ok {
			down = false
			continue
		}
		x, y := left+float64(first+i)*step, height(v, high)
		if down {
			b.WriteString("V" + number(y))
		} else {
			b.WriteString("M" + number(x) + " " + number(y))
		}
		b.WriteString("H" + number(x+step))
		down = true
	}
	return b.String()
}

// addBar adds a rectangle in a slot to the path.
func addBar(b *strings.Builder, slot int, from, to float64) {
	x := left + float64(slot)*step
	fmt.Fprintf(b, "M%s %sV%sH%sV%sZ", number(x+0.5), number(from), number(to), number(x+step-0.5), number(from))
}

// height returns the y coordinate of a value in a chart with the maximum value high.
func height(v, high float64) float64 { return bottom - min(v/high, 1)*(bottom-top) }

// axisMaximum returns a round even number of at least v as the maximum of an axis.
func axisMaximum(v float64) float64 {
	for unit := 1.0; ; unit *= 10 {
		for _, n := range []float64{2, 4, 6, 10} {
			if n*unit >= v {
				return n * unit
			}
		}
	}
}

func levels(high float64, text func(float64) string) []level {
	var all []level
	for _, v := range []float64{0, high / 2, high} {
		y := height(v, high)
		all = append(all, level{number(y), number(y + 4), text(v)})
	}
	return all
}

// timeLabels returns the labels below the chart, for the last minute and for 30 and 59 minutes before it.
func timeLabels(last time.Time) []label {
	return []label{
		{number(left), "start", formatHour(last.Add(-59 * time.Minute))},
		{number(left + 29.5*step), "middle", formatHour(last.Add(-30 * time.Minute))},
		{number(right), "end", formatHour(last)},
	}
}

// number formats a coordinate.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// formatHour formats the time of day as hh:mm in UTC.
func formatHour(t time.Time) string { return t.UTC().Format("15:04") }

// axisLabel formats a value with at most five characters.
func axisLabel(v float64) string {
	for _, u := range []struct {
		of   float64
		name string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if v >= u.of {
			if u.name == "k" {
				u.of = 1e3
			}
			return strconv.FormatFloat(v/u.of, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// formatCount formats a count with thousands separators.
func formatCount(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// countNoun formats a count followed by its noun.
func countNoun(n int64, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return formatCount(n) + " " + name + "s"
}

func entries(n *int64) string {
	switch {
	case n == nil:
		return "an unknown number of entries"
	case *n == 1:
		return "1 entry"
	}
	return formatCount(*n) + " entries"
}

// formatShare formats n as a percentage of all.
func formatShare(n, all int64) string {
	switch {
	case all == 0:
		return "–"
	case n == 0 || n == all:
		return strconv.FormatInt(100*n/all, 10) + " %"
	}
	return strconv.FormatFloat(min(max(100*float64(n)/float64(all), 0.1), 99.9), 'f', 1, 64) + " %"
}

// formatPercentile formats a percentile of a minute. The percentile is 0 if the minute had no timed attempts.
func formatPercentile(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return formatDuration(d)
}

// formatDuration formats a duration in milliseconds or seconds with two significant digits, the precision of the
// percentiles.
func formatDuration(d time.Duration) string {
	v, unit := d.Seconds()*1000, " ms"
	if v >= 1000 {
		v, unit = v/1000, " s"
	}
	switch {
	case v == 0:
	case v < 0.1:
		return "0.1" + unit
	default:
		scale := math.Pow(10, math.Floor(math.Log10(v))-1)
		v = math.Round(v/scale) * scale
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + unit
}
