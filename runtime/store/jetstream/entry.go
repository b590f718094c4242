package jetstream

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash/crc32"
	"regexp"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// formatVersion is the first byte of an entry's message.
const formatVersion = 1

// A storedEntry is an entry with its message's metadata.
type storedEntry struct {
	store.Entry
	call  uint64    // random, of the call that appended it
	stamp time.Time // the leader's, when it was appended
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode encodes an entry's message: the format version, the call, six strings with their lengths, and a checksum. The
// checksum is necessary because the server does not detect all changes to its data on disk. The length of an optional
// string is incremented by one; 0 means that the string is absent.
func encode(e *store.Entry, call uint64) []byte {
	b := make([]byte, 0, 64+len(e.EventID)+len(e.Data)+len(e.Meta)+len(e.Cursor))
	b = binary.BigEndian.AppendUint64(append(b, formatVersion), call)
	text := func(t string) { b = append(binary.AppendUvarint(b, uint64(len(t))), t...) }
	maybe := func(there bool, t []byte) {
		if !there {
			b = append(b, 0)
			return
		}
		b = append(binary.AppendUvarint(b, uint64(len(t))+1), t...)
	}
	text(e.EventID)
	text(e.Timestamp.String())
	text(e.Cursor)
	targets, _ := json.Marshal(e.Targets) // strings can always be encoded
	maybe(e.Targets != nil, targets)
	maybe(len(e.Meta) > 0, e.Meta)
	text(string(e.Data))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

var errForm = errors.New("invalid format or checksum")

// decode is the inverse of encode. It does not set the position or the stamp. The entry shares memory with b.
func decode(b []byte) (e storedEntry, err error) {
	if len(b) < 13 || crc32.Checksum(b[:len(b)-4], castagnoli) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return e, errForm
	}
	if b[0] != formatVersion {
		return e, errors.New("it was written by a newer release")
	}
	e.call = binary.BigEndian.Uint64(b[1:9])
	rest := b[9 : len(b)-4]
	next := func(above uint64) (t []byte, there bool) {
		n, w := binary.Uvarint(rest)
		if w <= 0 || err != nil {
			err = errForm
			return nil, false
		}
		if rest = rest[w:]; n < above {
			return nil, false
		}
		if n -= above; n > uint64(len(rest)) {
			err = errForm
			return nil, false
		}
		t, rest = rest[:n:n], rest[n:]
		return t, true
	}
	id, _ := next(0)
	at, _ := next(0)
	cursor, _ := next(0)
	targets, some := next(1)
	meta, _ := next(1)
	data, _ := next(0)
	if err != nil || len(rest) > 0 {
		return storedEntry{}, errForm
	}
	e.EventID, e.Cursor, e.Meta, e.Data = string(id), string(cursor), meta, data
	if e.Timestamp, err = events.ParseTime(string(at)); err != nil {
		return storedEntry{}, err
	}
	if some {
		if err := json.Unmarshal(targets, &e.Targets); err != nil || e.Targets == nil {
			return storedEntry{}, errForm
		}
	}
	return e, nil
}

// subjectID returns the last token of an entry's subject. The token is the same for entries with the same id and
// audience.
func subjectID(e *store.Entry) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(e.EventID))))
	h.Write([]byte(e.EventID))
	h.Write([]byte(store.Audience(e.Targets)))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

var plain = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

// logToken encodes a log's name as a token for subjects and stream names. Names with upper-case letters are hashed,
// because names that differ only in case would share a directory on some file systems.
func logToken(name string) string {
	if len(name) <= 128 && plain.MatchString(name) {
		b := []byte(name)
		for i := range b {
			if b[i] == '.' {
				b[i] = '~'
			}
		}
		return string(b)
	}
	sum := sha256.Sum256([]byte(name))
	return "=" + hex.EncodeToString(sum[:16])
}
