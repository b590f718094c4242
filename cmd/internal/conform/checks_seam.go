package conform

import (
	"context"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// checkHookSeam subscribes with the initial cursor and waits for a later event. By then, the callback must have
// received every event that polls had returned.
func checkHookSeam(ctx context.Context, r *run) error {
	s := r.hook
	if len(r.awaitPolled(ctx, s)) == 0 || s.first == nil {
		return skipf("no event of %s has come by polls", s.Name)
	}
	c := r.newCallback(echoes)
	x, err := r.mustSubscribe(ctx, c, map[string]any{"cursor": *s.first})
	if err != nil {
		return err
	}
	if err := r.expectKept(ctx, s, *s.first, x, x.answer.result); err != nil {
		return err
	}
	known := r.idsAfter(ctx, s, *s.first)
	idOf := func(p post) string { return (occurrence{raw: p.body}).eventID() }
	later := func(p post) bool { return isOccurrence(p) && !slices.Contains(known, idOf(p)) }
	_, came := c.await(ctx, 0, r.o.Wait, later)
	lost := ""
	for _, id := range known {
		if !came || lost != "" {
			break
		}
		if _, ok := c.await(ctx, 0, r.o.Wait, func(p post) bool { return isOccurrence(p) && idOf(p) == id }); !ok {
			lost = id
		}
	}
	if _, err := r.unsubscribe(ctx, s, c); err != nil {
		return err
	}
	switch {
	case known == nil || !came:
		return skipf("no later event was delivered in time")
	case lost != "":
		return x.violation("the delivery of "+wire.Shown(lost)+", which came after the cursor", "later events alone")
	}
	return nil
}
