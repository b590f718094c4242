package main

import (
	"fmt"
	"slices"
	"time"
)

// A row is a line of the table. It contains a measurement of ours and of the limit for each round.
type row struct {
	what        string
	limit, ours []float64
	most        float64 // the largest acceptable value of ours, instead of a limit
	show        func(float64) string
	note        string // follows ours
	target      string // of the ratio with the limit; starts with "≥" for a minimum and "≤" for a maximum
}

// against adds a row that compares ours with the limit.
func (b *bench) against(what string, limit, ours []float64, show func(float64) string, target string) {
	b.rows = append(b.rows, row{what: what, limit: limit, ours: ours, show: show, target: target})
}

// within adds a row that compares ours with the largest acceptable value.
func (b *bench) within(what string, ours []float64, most float64, show func(float64) string) {
	b.rows = append(b.rows, row{what: what, ours: ours, most: most, show: show})
}

// ageWithin adds a row that compares the 99th percentile with the largest acceptable value.
func (b *bench) ageWithin(what string, ours latencies, most time.Duration) {
	b.within(what+", p99", ours.p99, most.Seconds(), duration)
	b.note("p50 " + duration(median(ours.p50)))
}

// note adds a text to ours in the last row.
func (b *bench) note(text string) { b.rows[len(b.rows)-1].note = text }

// ratios returns the ratio of each round, or nil if the row has nothing to compare with.
func (r row) ratios() (all []float64) {
	for i, ours := range r.ours {
		switch {
		case r.most > 0:
			all = append(all, ours/r.most)
		case i < len(r.limit) && r.limit[i] > 0:
			all = append(all, ours/r.limit[i])
		}
	}
	return all
}

// ratio returns the median of the ratios.
func (r row) ratio() float64 { return median(r.ratios()) }

var columns = []string{"Measurement", "Limit", "Ours", "Ratio", "Least … most", "Target"}

// cells returns the texts of the columns. The limit and ours are medians.
func (r row) cells() []string {
	limit, ours, ratio, spread, target := "", r.show(median(r.ours)), "", "", r.target
	if r.note != "" {
		ours += " (" + r.note + ")"
	}
	if r.most > 0 {
		target = "≤ " + r.show(r.most)
	} else if len(r.limit) > 0 {
		limit = r.show(median(r.limit))
	}
	all, show := r.ratios(), func(x float64) string { return fmt.Sprintf("%.2f", x) }
	if len(all) > 0 {
		ratio = show(r.ratio())
	} else {
		all, show = r.ours, r.show
	}
	if len(all) > 1 {
		spread = show(slices.Min(all)) + " … " + show(slices.Max(all))
	}
	return []string{r.what, limit, ours, ratio, spread, target}
}

func rate(x float64) string {
	if x < 100 {
		return fmt.Sprintf("%.1f/s", x)
	}
	return fmt.Sprintf("%.0f/s", x)
}

func count(x float64) string { return fmt.Sprintf("%.0f", x) }

// duration shows three digits of a number of seconds.
func duration(seconds float64) string {
	d, unit := time.Duration(seconds*float64(time.Second)), time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

func nanoseconds(seconds float64) string { return fmt.Sprintf("%.1f ns", seconds*1e9) }

// size shows three digits of a number of bytes.
func size(bytes float64) string {
	if bytes < 1000<<10 {
		return fmt.Sprintf("%.3g KB", bytes/(1<<10))
	}
	return fmt.Sprintf("%.3g MB", bytes/(1<<20))
}
