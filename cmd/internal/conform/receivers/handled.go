package receivers

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/handled"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
)

// A promise limits how often a line may occur in the file of handled messages by the end of the run.
type promise struct {
	line string
	// least and most are the limits. A negative most means no upper limit.
	least, most int
	check       int // the index of its check
	x           *exchange
}

func (r *run) once(line string, x *exchange)    { r.promise(line, 1, 1, x) }
func (r *run) never(line string, x *exchange)   { r.promise(line, 0, 0, x) }
func (r *run) atLeast(line string, x *exchange) { r.promise(line, 1, -1, x) }

func (r *run) promise(line string, least, most int, x *exchange) {
	r.promises = append(r.promises, promise{line, least, most, r.currentCheck, x})
}

// handledCounts returns the number of occurrences of each line in the file.
func (r *run) handledCounts() (map[string]int, error) {
	all, err := handled.Lines(r.o.Handled)
	if err != nil {
		return nil, err
	}
	lines := map[string]int{}
	for line := range all {
		lines[line]++
	}
	return lines, nil
}

// awaitHandled waits for the promised lines and then updates the findings. It does not change a check that already
// reported a violation.
func (r *run) awaitHandled(ctx context.Context, all []check, findings []verdict.Finding) {
	if r.o.Handled == "" || len(r.promises) == 0 {
		return
	}
	lines, err := r.awaitLines(ctx)
	if err == nil {
		sleep(ctx, r.o.pace.quiet)
		lines, err = r.handledCounts()
	}
	some := false
	for _, p := range r.promises {
		some = some || lines[p.line] > 0
	}
	blamed := false // if nothing was handled, report only that
	for _, p := range r.promises {
		f, c := &findings[p.check], all[p.check]
		n := lines[p.line]
		if f.Outcome != verdict.Pass {
			continue
		}
		switch {
		case err != nil:
			*f = r.Finding(c.describe(), verdict.Unjudgedf("--handled: %v", err))
		case n < p.least && ctx.Err() != nil:
			*f = r.Finding(c.describe(), verdict.ErrRunEnded)
		case n < p.least && !some && blamed:
			*f = r.Finding(c.describe(), verdict.Skipf("%s has nothing of this run", r.o.Handled))
		case n < p.least:
			blamed = true
			*f = r.Finding(c.describe(), p.x.violation("the message to be handled after a 2xx: a line "+p.line,
				"no such line in %s", r.o.Handled))
		case p.most >= 0 && n > p.most:
			times := "never"
			if p.most > 0 {
				times = "once"
			}
			*f = r.Finding(c.describe(), p.x.violation("it to be handled "+times+": the line "+p.line,
				"%d such lines in %s", n, r.o.Handled))
		}
	}
}

// awaitLines waits until no line is missing or none was added for a while, and returns the counts. A program may handle
// messages after it has accepted them, and take its time.
func (r *run) awaitLines(ctx context.Context) (map[string]int, error) {
	some, end := 0, time.Now().Add(r.o.pace.settle)
	for {
		lines, err := r.handledCounts()
		if err != nil {
			return nil, err
		}
		if len(lines) > some {
			some, end = len(lines), time.Now().Add(r.o.pace.settle)
		}
		complete := true
		for _, p := range r.promises {
			complete = complete && lines[p.line] >= p.least
		}
		if complete || time.Now().After(end) || !sleep(ctx, 50*time.Millisecond) {
			return lines, nil
		}
	}
}

// sleep waits for d. It returns false if ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
