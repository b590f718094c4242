// Package pglock has the keys of the advisory locks that an outbox with a relay takes in PostgreSQL. Package pgoutbox
// takes the locks, and mcpe-gen doctor shows who has them.
package pglock

import (
	"crypto/sha256"
	"encoding/binary"
)

// OutboxSchema is the key of the lock under which the tables of an outbox in that schema are made or changed.
func OutboxSchema(schema string) int64 { return key("outbox schema " + schema) }

// OutboxRelay is the key of the lock that a relay has while it moves rows of the outbox in that schema.
func OutboxRelay(schema string) int64 { return key("outbox relay " + schema) }

func key(name string) int64 {
	sum := sha256.Sum256([]byte("mcpe-gen " + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
