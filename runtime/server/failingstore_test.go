package server

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// failingStore fails where it is told to.
type failingStore struct {
	*memory.Store
	fail atomic.Pointer[string] // the operation that fails
}

func (f *failingStore) ask(op string) error {
	if o := f.fail.Load(); o != nil && *o == op {
		return errors.New("disk full of secrets")
	}
	return nil
}

func (f *failingStore) PutSubscription(ctx context.Context, s store.Subscription) (uint64, error) {
	if err := f.ask("put"); err != nil {
		return 0, err
	}
	return f.Store.PutSubscription(ctx, s)
}

func (f *failingStore) Subscription(ctx context.Context, id string) (store.Subscription, bool, error) {
	if err := f.ask("get"); err != nil {
		return store.Subscription{}, false, err
	}
	return f.Store.Subscription(ctx, id)
}

func (f *failingStore) DeleteSubscription(ctx context.Context, id string, generation uint64) error {
	if err := f.ask("delete"); err != nil {
		return err
	}
	return f.Store.DeleteSubscription(ctx, id, generation)
}

func (f *failingStore) Verification(ctx context.Context, principal, url string) (store.Verification, bool, error) {
	if err := f.ask("verification"); err != nil {
		return store.Verification{}, false, err
	}
	return f.Store.Verification(ctx, principal, url)
}

func (f *failingStore) PutVerification(ctx context.Context, v store.Verification) error {
	if err := f.ask("put verification"); err != nil {
		return err
	}
	return f.Store.PutVerification(ctx, v)
}
