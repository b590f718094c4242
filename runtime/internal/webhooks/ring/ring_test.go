package ring

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// SUB-5: what is stored of a ring is the ring, in its order and with its ends.
func TestSUB5Stored(t *testing.T) {
	until := time.Unix(1_800_000_000, 0)
	want := webhook.Ring{{Secret: webhook.NewSecret()}, {Secret: webhook.NewSecret(), Until: until}}
	got, err := Of(Stored(want))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
}

// A stored secret that is none is no reason to sign with the others alone. The error names the place
// and the size, and not the secret.
func TestBadSecrets(t *testing.T) {
	good := Stored(webhook.NewRing(webhook.NewSecret()))[0]
	for name, secrets := range map[string][]store.Secret{
		"no secret is stored":            nil,
		"stored secret 2 of 2 (3 bytes)": {good, {Key: []byte("abc")}},
		"stored secret 1 of 1 (0 bytes)": {{}},
	} {
		r, err := Of(secrets)
		if r != nil || err == nil || !strings.HasPrefix(err.Error(), name) || strings.Contains(err.Error(), "abc") {
			t.Errorf("%s: %v %v", name, r, err)
		}
		var bad *webhook.SecretError
		if len(secrets) > 0 && !errors.As(err, &bad) {
			t.Errorf("%s: not a SecretError: %v", name, err)
		}
	}
}
