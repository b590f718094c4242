package pglock_test

import (
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/pglock"
)

// TestKeys: processes of different builds that share a database must use the same keys.
func TestKeys(t *testing.T) {
	for name, key := range map[string]struct{ got, want int64 }{
		"store":        {pglock.StoreSchema(`"mcpe"`), -4257772576008266577},
		"schema":       {pglock.OutboxSchema("mcpe_outbox"), -1004801009153652670},
		"relay":        {pglock.OutboxRelay("mcpe_outbox"), 4289570870928689011},
		"other schema": {pglock.OutboxRelay("other"), 519422243574996142},
	} {
		if key.got != key.want {
			t.Errorf("the key of %s is %d, want %d", name, key.got, key.want)
		}
	}
}
