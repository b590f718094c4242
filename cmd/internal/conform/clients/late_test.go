package clients

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
)

// late delays the nth program, from 1: until after it may ask something, or once it has asked who the server is.
func late(nth int64, begin client1) client1 {
	var started atomic.Int64
	return func(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error {
		if started.Add(1) == nth {
			if err := begin(ctx, n, url, stdout, stderr); err != nil || !sleep(ctx, modeTime+connectTime) {
				return err
			}
		}
		return wrongly("")(ctx, n, url, stdout, stderr)
	}
}

// asleep asks nothing.
func asleep(context.Context, *site, string, io.Writer, io.Writer) error { return nil }

// greets asks a server who it is.
func greets(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error {
	w := newWrong("", n, url, stdout, stderr)
	defer w.http.CloseIdleConnections()
	_, err := w.call(ctx, "server/discover", map[string]any{})
	return err
}

// TestLate judges a right client on a machine on which a program begins too late: it is blamed for nothing, and the run
// is not green (CLI-3, CLI-4, CLI-5).
func TestLate(t *testing.T) {
	for name, tt := range map[string]struct {
		nth    int64
		begins client1
		scenes []string
		says   string
	}{
		"the first program":        {1, asleep, nil, "in time"},
		"the second program":       {2, asleep, nil, "in time"},
		"the third program":        {3, asleep, nil, "in time"},
		"the fourth program":       {4, asleep, nil, "in time"},
		"a program of polls":       {5, asleep, []string{"poll-failure"}, "asked nothing of this server in time"},
		"a program of streams":     {5, asleep, []string{"stream-cut"}, "asked nothing of this server in time"},
		"a program of webhooks":    {5, asleep, []string{"delivery-control"}, "asked nothing of this server in time"},
		"a program of a tolerance": {5, asleep, []string{"unknown-members"}, "asked nothing of this server in time"},
		"polls after a greeting":   {5, greets, []string{"poll-restart"}, "asked this server for no events in time"},
		"webhooks after one":       {5, greets, []string{"delivery-control"}, "asked this server for no events in time"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := Options{Handled: "-", selectsScene: func(sc scene) bool { return tt.scenes == nil || slices.Contains(tt.scenes, sc.name) }}
				report := judgeIn(t, o, late(tt.nth, tt.begins))
				for _, f := range report.Findings {
					if f.Outcome == verdict.Fail || f.Outcome == verdict.Advice || f.Outcome == verdict.Unjudged && !strings.Contains(f.Got, tt.says) {
						t.Errorf("%+v", f)
					}
				}
				if report.Unjudged == 0 || report.Unfinished == nil {
					t.Errorf("%d not judged, %v", report.Unjudged, report.Unfinished)
				}
			})
		})
	}
}

// TestSlow judges a client whose programs all begin late and answer late: each scene has its own limit, so the run is
// finished and blames it for nothing.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := judgeIn(t, Options{Handled: "-"}, func(ctx context.Context, n *site, url string, stdout, stderr io.Writer) error {
			if !sleep(ctx, connectTime-time.Second) {
				return nil
			}
			return wrongly("")(ctx, n, url, stdout, stderr)
		})
		for _, f := range report.Findings {
			if f.Outcome != verdict.Pass {
				t.Errorf("%+v", f)
			}
		}
		if report.Unfinished != nil {
			t.Error(report.Unfinished)
		}
	})
}
