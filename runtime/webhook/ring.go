package webhook

import (
	"slices"
	"time"
)

// A Key is a secret in a [Ring] with an expiry time.
type Key struct {
	Secret Secret
	// Until is the time after which the secret is not used; zero means no expiry.
	Until time.Time
}

// maxKeys is the maximum number of keys in a ring. It limits the length of the webhook-signature header if a subscriber
// changes its secret often within a grace period.
const maxKeys = 4

// A Ring holds the secrets of a subscription, newest first. Messages are signed with all active secrets, so a receiver
// needs only one of them during a rotation (SUB-5). A Ring is immutable. Its methods return a new Ring. Stores persist
// its keys.
type Ring []Key

// NewRing returns a ring with one secret.
func NewRing(s Secret) Ring { return Ring{{Secret: s}} }

// Rotate returns a ring with s as the newest secret. The previously newest secret remains active until now + grace.
// Older keys keep their expiry times. If s is already the newest secret, no expiry times change, so a refresh with the
// same secret neither extends nor shortens a grace period. Rotate removes expired keys and keeps only the four newest
// keys.
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

// Active returns the secrets that are active at now, newest first. A key is active up to and including its expiry time.
func (r Ring) Active(now time.Time) []Secret {
	var secrets []Secret
	for _, k := range r {
		if k.activeAt(now) {
			secrets = append(secrets, k.Secret)
		}
	}
	return secrets
}

func (r Ring) active(now time.Time) Ring {
	return slices.DeleteFunc(slices.Clone(r), func(k Key) bool { return !k.activeAt(now) })
}

func (k Key) activeAt(now time.Time) bool {
	return !k.Secret.IsZero() && (k.Until.IsZero() || !now.After(k.Until))
}
