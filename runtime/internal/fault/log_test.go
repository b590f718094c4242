package fault

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Of failures in a row the first is logged, and what comes after ctx is done is not.
func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		l := Log{Logger: slog.New(slog.NewTextHandler(&b, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		results := []error{nil, errors.New("one"), errors.New("two"), nil, errors.New("three"), errors.New("four")}
		began, n := time.Now(), 0
		l.Every(ctx, time.Second, "trying", func() error {
			n++
			if n == len(results) {
				cancel()
			}
			return results[n-1]
		})
		if took := time.Since(began); n != len(results) || took != 6*time.Second {
			t.Errorf("%d calls in %v", n, took)
		}
		if got := b.String(); strings.Count(got, "trying failed") != 2 || !strings.Contains(got, "error=one") || !strings.Contains(got, "error=three") {
			t.Errorf("logged:\n%s", got)
		}
		b.Reset()
		ctx, cancel = context.WithCancel(t.Context())
		l.Every(ctx, time.Second, "trying", func() error { cancel(); return errors.New("late") })
		if b.Len() > 0 {
			t.Errorf("logged after the end: %s", b.String())
		}
	})
}
