package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// TestCallbacks runs the test suite for [clientstore.CallbackStore]; open returns an empty store.
func TestCallbacks(t *testing.T, open func(t *testing.T) clientstore.CallbackStore) {
	full := func(n byte) clientstore.Callback {
		return clientstore.Callback{URL: "https://r.example/hooks/x", Path: "/hooks/x", Subscription: "sub_1", Start: "c0", EventIDs: []string{"e1", "e2"},
			Secrets: []store.Secret{{Key: []byte{n, 2, 3}}, {Key: []byte{n, 4}, NotAfter: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}}}
	}
	t.Run("CLI-5 Callback returns the last callback that was put", func(t *testing.T) {
		s := open(t)
		ctx := t.Context()
		if _, ok, err := s.Callback(ctx, "k"); ok || err != nil {
			t.Fatalf("nothing was put: found %v, error %v", ok, err)
		}
		for _, want := range []clientstore.Callback{{URL: "u", Path: "/p", Secrets: []store.Secret{{Key: []byte{9}}}}, full(1), full(2)} {
			if err := s.PutCallback(ctx, "k", want); err != nil {
				t.Fatal(err)
			}
			got, ok, err := s.Callback(ctx, "k")
			if err != nil || !ok {
				t.Fatalf("found %v, error %v", ok, err)
			}
			check.Equal(t, got, want)
		}
		if _, ok, err := s.Callback(ctx, "other"); ok || err != nil {
			t.Errorf("keys are mixed: found %v, error %v", ok, err)
		}
	})
	t.Run("CLI-5 a deleted callback is gone", func(t *testing.T) {
		s := open(t)
		ctx := t.Context()
		if err := s.PutCallback(ctx, "k", full(1)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.DeleteCallback(ctx, "k"); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok, err := s.Callback(ctx, "k"); ok || err != nil {
			t.Errorf("found %v, error %v", ok, err)
		}
	})
	t.Run("A cancelled context changes nothing", func(t *testing.T) {
		s := open(t)
		dead, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.PutCallback(dead, "k", full(1)); !errors.Is(err, context.Canceled) {
			t.Errorf("put: %v", err)
		}
		if _, ok, err := s.Callback(t.Context(), "k"); ok || err != nil {
			t.Errorf("found %v, error %v", ok, err)
		}
	})
}
