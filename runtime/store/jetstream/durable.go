package jetstream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/internal/monitor"
)

// durable says what is not known, or wrong, of how the servers write to their disks what they acknowledge (JS-43).
func (s *Store) durable(ctx context.Context) error {
	said := make([]string, len(s.o.Monitors))
	var wg sync.WaitGroup
	for i, m := range s.o.Monitors {
		wg.Go(func() {
			wrong, err := syncs(ctx, m)
			if said[i] = wrong; err != nil {
				said[i] = fmt.Sprintf("it is not known of %s: %v", m, err)
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
		wrong = []string{"it is not known of any: Options.Monitors names none"}
	}
	switch {
	case len(wrong) == 0:
	case s.o.RequireSync:
		return fmt.Errorf("%w: whether the disks have what servers acknowledge: %s", ErrServer, strings.Join(wrong, "; "))
	case len(said) > 0 || !s.o.Single: // of one disk Open has warned
		s.log.Warn("jetstream: a loss of power may lose what servers have acknowledged, unless each has sync_interval: always", "servers", strings.Join(wrong, "; "))
	}
	return nil
}

// syncs asks the monitoring of a server how it writes to disk what it acknowledges. wrong says what is; "" where it writes
// before it acknowledges.
func syncs(ctx context.Context, at string) (wrong string, err error) {
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
		return at + " has no JetStream", nil
	case !v.Config.Always:
		return fmt.Sprintf("%s writes to disk every %v", at, v.Config.Interval), nil
	}
	return "", nil
}
