package webhook

import (
	"slices"
	"time"
)

// A Key is one secret of a [Ring] and how long it is used.
type Key struct {
	Secret Secret
	// Until is the last moment at which the secret is used; zero means that it does not end.
	Until time.Time
}

// maxKeys bounds a ring, and with it the length of webhook-signature, however often a subscriber
// changes its secret within the grace window.
const maxKeys = 4

// A Ring is the secrets of a subscription, the newest first. Messages are signed with all that
// are active, so that a receiver may know any one of them while a new one takes hold (SUB-5).
// A Ring is a value: its methods return another one and change nothing. Stores keep its keys.
type Ring []Key

// NewRing is a ring of one secret.
func NewRing(s Secret) Ring { return Ring{{Secret: s}} }

// Rotate puts s in front. What was in front before stays active until now + grace; older keys keep
// their end. Rotating to the secret that is in front already changes nothing, so that a refresh
// with the same secret neither extends nor ends a window. Ended keys are dropped, and beyond four
// keys the oldest ones.
func (r Ring) Rotate(s Secret, now time.Time, grace time.Duration) Ring {
	if len(r) > 0 && r[0].Secret.Equal(s) {
		front := Key{Secret: s}
		return append(Ring{front}, r[1:].active(now)...)
	}
	next := Ring{{Secret: s}}
	for i, k := range r {
		if i == 0 && grace > 0 {
			k.Until = now.Add(grace)
		}
		if i == 0 && grace <= 0 || k.Secret.Equal(s) {
			continue
		}
		next = append(next, k)
	}
	next = next.active(now)
	return next[:min(len(next), maxKeys)]
}

// Active returns the secrets that are used at now, the newest first. A key is used up to and
// including its end.
func (r Ring) Active(now time.Time) []Secret {
	var secrets []Secret
	for _, k := range r.active(now) {
		secrets = append(secrets, k.Secret)
	}
	return secrets
}

func (r Ring) active(now time.Time) Ring {
	return slices.DeleteFunc(slices.Clone(r), func(k Key) bool {
		return k.Secret.IsZero() || !k.Until.IsZero() && now.After(k.Until)
	})
}
