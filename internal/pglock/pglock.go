// Package pglock provides the keys of the PostgreSQL advisory locks for a store and for an outbox with a relay.
// Packages postgres and pgoutbox acquire the locks, and mcpe-ops doctor shows the holder of the relay's lock.
package pglock

import (
	"crypto/sha256"
	"encoding/binary"
)

// StoreSchema returns the key of the lock for creating or changing the tables of a store in a schema. The schema's name
// must be quoted.
func StoreSchema(schema string) int64 { return key(schema) }

// OutboxSchema returns the key of the lock for creating or changing the tables of an outbox in a schema.
func OutboxSchema(schema string) int64 { return key("outbox schema " + schema) }

// OutboxRelay returns the key of the lock that a relay holds while it moves rows of the outbox in a schema.
func OutboxRelay(schema string) int64 { return key("outbox relay " + schema) }

func key(name string) int64 {
	sum := sha256.Sum256([]byte("mcpe-gen " + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
