package webhook

import (
	"slices"
	"time"
)

// A Key is one secret of a [Ring] and the end of its use.
type Key struct {
	Secret Secret
	// Until is the last moment at which the secret is used; zero means no end.
	Until time.Time
}

// maxKeys bounds a ring, and with it the length of webhook-signature, however often a subscriber
// changes its secret within the grace window.
const maxKeys = 4

// A Ring holds the secrets of a subscription, newest first. Messages are signed with all active
// secrets, so that a receiver needs to know only one of them during a rotation (SUB-5). A Ring is
// immutable: its methods return a new one. Stores persist its keys.
type Ring []Key

// NewRing returns a ring with one secret.
func NewRing(s Secret) Ring { return Ring{{Secret: s}} }

// Rotate returns a ring with s as the newest secret. The previous newest secret stays active until
// now + grace; older keys keep their end. If s already is the newest secret, the ends do not
// change, so that a refresh with the same secret neither extends nor shortens a window. Rotate
// drops expired keys, and the oldest ones beyond four.
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

// Active returns the secrets that are active at now, newest first. A key is active up to and
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
