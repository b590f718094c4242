package jetstream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/internal/monitor"
)

// checkDurability checks that the servers write messages to disk before they acknowledge them. It logs a warning if a
// server does not or its setting is unknown. With RequireSync, it returns an error instead (JS-43).
func (s *Store) checkDurability(ctx context.Context) error {
	said := make([]string, len(s.o.Monitors))
	var wg sync.WaitGroup
	for i, m := range s.o.Monitors {
		wg.Go(func() {
			wrong, err := syncFault(ctx, m)
			if said[i] = wrong; err != nil {
				said[i] = fmt.Sprintf("unknown for %s: %v", m, err)
			}
		})
	}
	wg.Wait()
	var wrong []string
	for _, what := range said {
		if what != "" {
			wrong = append(wrong, what)
		}
	}
	if len(said) == 0 {
		wrong = []string{"unknown: Options.Monitors is empty"}
	}
	switch {
	case len(wrong) == 0:
	case s.o.RequireSync:
		return fmt.Errorf("%w: servers may acknowledge messages before they are on disk: %s", ErrServer, strings.Join(wrong, "; "))
	case len(said) > 0 || !s.o.Single: // for a single server, Open has already logged a warning
		s.log.Warn("jetstream: a power failure may lose acknowledged messages, unless each server has sync_interval: always", "servers", strings.Join(wrong, "; "))
	}
	return nil
}

// syncFault queries a server's monitoring endpoint for the sync settings. It returns "" if the server syncs each
// message before acknowledging it, and otherwise a description of the fault.
func syncFault(ctx context.Context, at string) (wrong string, err error) {
	var v struct {
		Config struct {
			Interval time.Duration `json:"sync_interval"`
			Always   bool          `json:"sync_always"`
		} `json:"config"`
		Disabled bool `json:"disabled"`
	}
	err = monitor.Get(ctx, at+"/jsz", &v)
	switch {
	case err != nil:
		return "", err
	case v.Disabled:
		return at + " has JetStream disabled", nil
	case !v.Config.Always:
		return fmt.Sprintf("%s writes to disk every %v", at, v.Config.Interval), nil
	}
	return "", nil
}
