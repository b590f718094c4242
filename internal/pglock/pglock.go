// Package pglock has the keys of the advisory locks that a store, and an outbox with a relay, take in PostgreSQL. Packages
// postgres and pgoutbox take the locks, and mcpe-ops doctor shows who has the relay's.
package pglock

import (
	"crypto/sha256"
	"encoding/binary"
)

// StoreSchema is the key of the lock under which the tables of a store in that schema are made or changed; the schema's name
// is quoted.
func StoreSchema(schema string) int64 { return key(schema) }

// OutboxSchema is the key of the lock under which the tables of an outbox in that schema are made or changed.
func OutboxSchema(schema string) int64 { return key("outbox schema " + schema) }

// OutboxRelay is the key of the lock that a relay has while it moves rows of the outbox in that schema.
func OutboxRelay(schema string) int64 { return key("outbox relay " + schema) }

func key(name string) int64 {
	sum := sha256.Sum256([]byte("mcpe-gen " + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
