package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// maxSamples is the maximum number of generated payloads per type. It also limits how many enum values they contain.
const maxSamples = 24

// emitSamples emits a generated occurrence of every type at each interval. It cycles through the payloads of a type.
func (t *trial) emitSamples(ctx context.Context) {
	tick := time.NewTicker(t.o.Sample)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, typ := range t.types {
			if len(typ.samples) == 0 {
				continue
			}
			i := n % len(typ.samples)
			if err := typ.emit.Emit(ctx, typ.samples[i]); err != nil && ctx.Err() == nil {
				t.warn("%s: %s", typ.name, plain.Text(err.Error()))
				typ.samples = slices.Delete(typ.samples, i, i+1) // it would fail each time
			}
		}
	}
}

// maxLine is the maximum length of a line in a replayed file, in bytes.
const maxLine = 2 << 20

// A replay is an open file with lines in the format of `listen --json`.
type replay struct {
	name string
	file *os.File
}

func openReplay(name string) (*replay, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--replay: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("--replay: %s is a directory", name)
	}
	return &replay{name, f}, nil
}

func (r *replay) close() { r.file.Close() }

// A recordedLine is a line of the file. The line of a gap or an error has no eventId.
type recordedLine struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// subscriberInterval is the interval at which replayEvents checks for the first subscriber.
const subscriberInterval = 20 * time.Millisecond

// replayEvents emits the recorded occurrences with their eventIds and at the pace of their timestamps. It starts once a
// client has subscribed. It reports lines that cannot be emitted and skips them.
func (t *trial) replayEvents(ctx context.Context, r *replay) {
	for len(t.es.Subscriptions()) == 0 {
		if !wait(ctx, subscriberInterval) {
			return
		}
	}
	lines := bufio.NewScanner(r.file)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	var first time.Time
	began := time.Now()
	emitted := 0
	n := 0
	for lines.Scan() {
		n++
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line recordedLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.warn("%s:%d: no line of listen --json: %s", r.name, n, plain.Text(err.Error()))
			continue
		}
		if line.EventID == "" {
			continue // a gap or an error
		}
		typ := t.typesByName[line.Name]
		if typ == nil {
			t.warn("%s:%d: no event type %s", r.name, n, plain.Text(line.Name))
			continue
		}
		if first.IsZero() {
			first = line.Timestamp
		}
		due := began.Add(time.Duration(float64(line.Timestamp.Sub(first)) / t.o.Speed))
		if !wait(ctx, time.Until(due)) {
			return
		}
		options := []events.EmitOption{events.WithID(line.EventID), events.WithTimestamp(line.Timestamp)}
		if err := typ.emit.Emit(ctx, line.Data, options...); err != nil {
			if ctx.Err() != nil {
				return
			}
			t.warn("%s:%d: %s", r.name, n, plain.Text(err.Error()))
			continue
		}
		emitted++
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.warn("%s:%d: %v", r.name, n+1, err)
	}
	t.printMessage("%s: %d occurrences replayed", r.name, emitted)
}

// wait waits for d. It returns false if ctx is done first.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
