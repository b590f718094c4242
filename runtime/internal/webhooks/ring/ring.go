// Package ring converts the secrets of a subscription between their stored form and the ring that signs messages. It is
// used by servers and receivers.
package ring

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// Of converts stored secrets to a ring. It returns an error if secrets is empty or contains an invalid secret. The
// error contains the index and size of the secret but not the secret itself. An invalid secret is not skipped, because
// a receiver that knows only this secret would reject the messages.
func Of(secrets []store.Secret) (webhook.Ring, error) {
	if len(secrets) == 0 {
		return nil, errors.New("no secret is stored")
	}
	r := make(webhook.Ring, len(secrets))
	for i, s := range secrets {
		secret, err := webhook.ParseSecret(wire.SecretPrefix + base64.StdEncoding.EncodeToString(s.Key))
		if err != nil {
			return nil, fmt.Errorf("stored secret %d of %d (%d bytes): %w", i+1, len(secrets), len(s.Key), err)
		}
		r[i] = webhook.Key{Secret: secret, Until: s.NotAfter}
	}
	return r, nil
}

// Stored converts a ring to its stored form.
func Stored(r webhook.Ring) []store.Secret {
	secrets := make([]store.Secret, len(r))
	for i, k := range r {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(k.Secret.Text(), wire.SecretPrefix))
		if err != nil {
			panic("webhook.Secret.Text writes what cannot be read: " + err.Error())
		}
		secrets[i] = store.Secret{Key: key, NotAfter: k.Until}
	}
	return secrets
}
