package bridge

import (
	"context"
	"errors"
)

// A leader runs the feeds and the hub for all windows. It exists in the bridge that has locked the state directory.
type leader struct {
	state *state
	e     *engine
	h     *hub
}

// startLeader locks the state directory and starts the leader. The error is a [*filelock.HeldError] if another bridge
// holds the lock.
func startLeader(ctx context.Context, o Options, dir string, print func(string)) (_ *leader, err error) {
	s, err := openState(ctx, dir, o.Config.Limits)
	if err != nil {
		return nil, err
	}
	l := &leader{state: s, e: newEngine(ctx, o, s, print)}
	l.h = newHub(l.e)
	socket, err := o.meet.listen(dir)
	if err != nil {
		l.e.printMessage("no other window can share this bridge: %v", err)
	} else {
		l.h.accept(socket)
	}
	if err := l.e.start(); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	return l, nil
}

// stop stops the leader cleanly. The next leader finds all of its state on disk.
func (l *leader) stop() error {
	l.h.stop()
	l.e.stop()
	return l.state.close()
}
