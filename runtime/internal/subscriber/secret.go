package subscriber

import (
	"encoding/base64"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// ringOf is the signer's form of stored secrets.
func ringOf(secrets []store.Secret) webhook.Ring {
	var r webhook.Ring
	for _, s := range secrets {
		if secret, err := webhook.ParseSecret(wire.SecretPrefix + base64.StdEncoding.EncodeToString(s.Key)); err == nil {
			r = append(r, webhook.Key{Secret: secret, Until: s.NotAfter})
		}
	}
	return r
}

// secretsOf is the stored form of a ring.
func secretsOf(r webhook.Ring) []store.Secret {
	var secrets []store.Secret
	for _, k := range r {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(k.Secret.Text(), wire.SecretPrefix))
		if err == nil {
			secrets = append(secrets, store.Secret{Key: key, NotAfter: k.Until})
		}
	}
	return secrets
}
