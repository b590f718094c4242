package feed

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// An Ask is an author's check whose types are erased. The parameter a is a pointer of type *A.
type Ask func(ctx context.Context, a any, cursor string) (Page, error)

// Erase converts an author's check to an Ask. It returns nil if check is nil.
//
//go:noinline
func Erase[A, P any](check func(ctx context.Context, args A, cursor string) (events.Page[P], error)) Ask {
	if check == nil {
		return nil
	}
	return func(ctx context.Context, a any, cursor string) (Page, error) {
		page, err := check(ctx, *a.(*A), cursor)
		if err != nil {
			return Page{}, err
		}
		p := Page{Items: make([]Item, len(page.Items)), Cursor: page.Cursor, HasMore: page.HasMore, Truncated: page.Truncated, NextPoll: page.NextPoll}
		for i := range page.Items {
			it := &page.Items[i]
			p.Items[i] = encodeItem(it.ID, it.Timestamp, it.TimestampText, it.Cursor, &it.Data)
		}
		return p, nil
	}
}

func encodeItem(id string, at time.Time, text, cursor string, p any) Item {
	data, err := codec.Encode(p)
	return Item{ID: id, Time: at, Text: text, Cursor: cursor, Data: data, Err: err}
}
