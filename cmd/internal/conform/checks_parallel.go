package conform

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// parallelChecks poll while a stream is open. They run first because a server that blocks such a poll until the stream
// ends slows down most of the run.
var parallelChecks = []check{
	{name: "poll-during-stream", id: "PUSH-10", title: "The server responds promptly to a poll while a stream is open", needs: needPoll | needPush, run: checkPollNextToStream},
}

// promptTime is how long a poll may take while a stream is open, if events/list takes less than a quarter of that. The
// check fails if promptTries consecutive polls take longer.
const (
	promptTime  = 4 * time.Second
	promptTries = 2
)

func checkPollNextToStream(ctx context.Context, r *run) error {
	s, open := r.poll, false
	for _, other := range r.types {
		if other.stream == nil {
			continue
		}
		if open = true; other.has(wire.ModePoll) {
			s = other
			break
		}
	}
	if !open {
		return skipf("no stream could be opened")
	}
	for try := 1; ; try++ {
		listing, err := r.call(ctx, wire.MethodList, nil)
		if err != nil {
			return err
		}
		x, err := r.call(ctx, wire.MethodPoll, s.params(map[string]any{"cursor": s.first}))
		switch {
		case err == errLimited:
			return err
		case err != nil:
			return x.violation("an answer to a poll next to an open stream", "%v", err)
		case x.took < promptTime || x.took < 4*listing.took:
			return nil
		case try == promptTries:
			return x.violation("an answer to a poll next to an open stream as soon as to events/list", "one after %v, and after %v to events/list",
				x.took.Round(time.Millisecond), listing.took.Round(time.Millisecond))
		}
	}
}

// checkWindowAnswered examines the polls that the witness sends while its streams are open.
func checkWindowAnswered(ctx context.Context, r *run) error {
	w, err := r.awaitWitness(ctx)
	switch {
	case w == nil:
		return err
	case w.unanswered != nil:
		return w.unanswered.violation("an answer to each poll next to open streams", "none")
	case err == nil && !(w.s.has(wire.ModePoll) && w.s.has(wire.ModePush)):
		return skipf("%s does not offer both poll and push", w.s.Name)
	}
	return err
}
