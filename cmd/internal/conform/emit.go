package conform

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/procgroup"
)

// maxBurst is the maximum number of events that one run of the emit command emits.
const maxBurst = 4

// emitEvents runs the emit command about once a second for each event type, until ctx is done. Some runs emit
// several events together. It gives up a type for which the command fails.
func (r *run) emitEvents(ctx context.Context) {
	d, types := r.draw.For("emit"), r.types[:min(len(r.types), maxWatched)]
	for ctx.Err() == nil && len(types) > 0 {
		var next []*subject
		for _, s := range types {
			n := max(1, d.IntN(2*maxBurst)+1-maxBurst)
			if err := r.o.emit(ctx, s.Name, n); err != nil && ctx.Err() == nil {
				r.mu.Lock()
				r.emitError = fmt.Errorf("--emit for %s: %w", s.Name, err)
				r.mu.Unlock()
				continue
			}
			next = append(next, s)
		}
		types = next
		pause(ctx, r.o.pace.emit)
	}
}

// runEmit runs the emit command, which emits n events of a type.
func (o *Options) runEmit(ctx context.Context, name string, n int) error {
	return runShell(ctx, o.Emit, o.pace.call, "MCPE_CONFORM_EVENT="+name, fmt.Sprintf("MCPE_CONFORM_N=%d", n))
}

// quietf returns the error of a check for which no event occurred. It is unjudged unless the options allow that.
func (r *run) quietf(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if r.o.AllowQuiet {
		return skipf("%s", text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.emitError != nil {
		text += fmt.Sprintf("; %v", r.emitError)
	}
	return verdict.Unjudgedf("%s (--allow-quiet accepts that)", text)
}

// runShell runs a command in the system's shell. The command must exit within the given time.
func runShell(ctx context.Context, command string, most time.Duration, env ...string) error {
	shell := []string{"/bin/sh", "-c", command}
	if runtime.GOOS == "windows" {
		shell = []string{"cmd", "/C", command}
	}
	// Discard the output. Otherwise, a server left in the background would keep a pipe open.
	p, err := procgroup.Start(shell, env, nil, nil)
	if err != nil {
		return err
	}
	select {
	case <-p.Exited():
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	case <-time.After(most):
		p.Kill()
		return fmt.Errorf("it did not exit within %v; a server must be started in the background", most)
	}
	if p.Status() != "exit status 0" {
		return errors.New(p.Status())
	}
	return nil
}
