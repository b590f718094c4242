package bridge

import (
	"context"
	"fmt"
)

// Resume ends the pauses of wakes in the bridge of a state directory. The bridge pauses wakes that seem to form a loop.
// It returns the names of the subscriptions that were paused.
func Resume(ctx context.Context, o Options) ([]string, error) {
	dir, err := stateDir(o)
	if err != nil {
		return nil, err
	}
	if o.meet == nil {
		o.meet = sockets{}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	conn, err := o.meet.dial(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("no bridge runs that has the state in %s: %w", dir, err)
	}
	l, err := connect(ctx, conn, o.Version)
	if err != nil {
		return nil, fmt.Errorf("the bridge that has the state in %s does not answer: %w", dir, err)
	}
	defer l.close()
	var out resumeResult
	err = l.call(ctx, opResume, struct{}{}, &out)
	return out.Resumed, err
}
