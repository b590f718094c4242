package operate

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// outbox is the store's; nil where it has none.
func (a *Admin) outbox() engine.Outbox {
	o, _ := a.o.Store.(engine.Outbox)
	return o
}

func (a *Admin) Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error) {
	o := a.outbox()
	if o == nil {
		return nil, nil
	}
	return o.Rejected(ctx, after, limit)
}

func (a *Admin) PutBack(ctx context.Context, id int64) error {
	return a.rejected(ctx, id, engine.Outbox.PutBack)
}

func (a *Admin) Drop(ctx context.Context, id int64) error {
	return a.rejected(ctx, id, engine.Outbox.Drop)
}

func (a *Admin) rejected(ctx context.Context, id int64, do func(engine.Outbox, context.Context, int64) (bool, error)) error {
	o, found := a.outbox(), false
	if o != nil {
		var err error
		if found, err = do(o, ctx, id); err != nil {
			return err
		}
	}
	if !found {
		return fault.NotFound("occurrence")
	}
	return nil
}
