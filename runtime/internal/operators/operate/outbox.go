package operate

import (
	"context"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func (a *Admin) Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error) {
	if a.o.Outbox == nil {
		return nil, nil
	}
	return a.o.Outbox.Rejected(ctx, after, limit)
}

func (a *Admin) PutBack(ctx context.Context, id int64) error {
	return a.rejected(ctx, id, engine.Outbox.PutBack)
}

func (a *Admin) Drop(ctx context.Context, id int64) error {
	return a.rejected(ctx, id, engine.Outbox.Drop)
}

func (a *Admin) rejected(ctx context.Context, id int64, do func(engine.Outbox, context.Context, int64) (bool, error)) error {
	found := false
	if a.o.Outbox != nil {
		var err error
		if found, err = do(a.o.Outbox, ctx, id); err != nil {
			return err
		}
	}
	if !found {
		return fault.NotFound("occurrence")
	}
	return nil
}
