package feed

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// encodeCombinedCursor returns the JSON encoding of the cursor that [combineCursors] returns.
func encodeCombinedCursor(log wire.Cursor, check string) []byte {
	text, err := combineCursors(log, check)
	if err != nil {
		return topic.NullCursor
	}
	return frame.AppendString(nil, text)
}

// resolveCombined returns the start position in the type's log for a request whose cursor combines the positions in
// both sources.
func resolveCombined(ctx context.Context, t *topic.Topic, typ *topic.Type, head store.Position, w topic.Replay) (topic.Start, error) {
	if w.Cursor != nil {
		c, err := topic.ParseCursor(*w.Cursor)
		if err != nil {
			return topic.Start{Position: head, Truncated: true}, nil
		}
		c.Kind = wire.LogCursor
		text := c.String()
		w.Cursor = &text
	}
	return t.Start(ctx, typ, head, w)
}
