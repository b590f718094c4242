package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// A CursorKind is the kind of position that a [Cursor] contains.
type CursorKind uint8

// The kinds of cursors.
const (
	// LogCursor is a position in an event type's log: Name, Epoch, Position, Proof.
	LogCursor CursorKind = iota + 1
	// CheckCursor is a position in the upstream of a check source: Name, Feed, Upstream, Offset.
	CheckCursor
	// BothCursor is a position of a type with both sources: all fields.
	BothCursor
	// ListCursor is a page of events/list (LIST-1): Name, Epoch, Position, Upstream, as the lister defines them.
	ListCursor
)

// A Cursor is the decoded form of an opaque cursor string (CUR-1). Its kind determines the encoded fields. All other
// fields are ignored.
type Cursor struct {
	Kind CursorKind
	// Name is the NameHash of the event type. It detects a cursor of another type (CUR-7).
	Name uint32
	// Epoch identifies the incarnation of the log. Position is the last entry that was passed.
	Epoch, Position uint64
	// Proof identifies the entry at Position. It detects a different entry after the log was restored from an older
	// copy. It is 0 if unknown.
	Proof uint32
	// Feed identifies the feed of a check: event, arguments and principal.
	Feed uint64
	// Upstream is the upstream's cursor. It can contain arbitrary bytes. Offset is the number of items passed after
	// that cursor.
	Upstream string
	Offset   uint32
}

// The first byte of every cursor is its version, which identifies the format.
const (
	bareCursor   = 1 // without a proof
	provenCursor = 2
)

// ErrCursor is the error of ParseCursor. An invalid cursor is a protocol error only in events/list (LIST-1). Otherwise
// delivery continues from the head (CUR-7).
var ErrCursor = errors.New("wire: malformed cursor")

type cursorFields struct{ log, proof, feed, upstream bool }

var cursorKinds = [...]cursorFields{
	LogCursor:   {log: true, proof: true},
	CheckCursor: {feed: true, upstream: true},
	BothCursor:  {log: true, proof: true, feed: true, upstream: true},
	ListCursor:  {log: true, upstream: true},
}

// base64url without padding. Strict rejects non-zero padding bits. Otherwise a cursor could have more than one text.
var cursorEncoding = base64.RawURLEncoding.Strict()

// String encodes c as the version, the kind, the name and the fields of its kind in struct order, but Upstream last.
// Numbers are big-endian. The version specifies whether c has a proof. The result is "" if c has no kind.
func (c Cursor) String() string {
	if !c.Kind.known() {
		return ""
	}
	fields := cursorKinds[c.Kind]
	var space [64]byte
	proven := fields.proof && c.Proof != 0
	version := byte(bareCursor)
	if proven {
		version = provenCursor
	}
	b := append(space[:0], version, byte(c.Kind))
	b = binary.BigEndian.AppendUint32(b, c.Name)
	if fields.log {
		b = binary.BigEndian.AppendUint64(b, c.Epoch)
		b = binary.BigEndian.AppendUint64(b, c.Position)
	}
	if proven {
		b = binary.BigEndian.AppendUint32(b, c.Proof)
	}
	if fields.feed {
		b = binary.BigEndian.AppendUint64(b, c.Feed)
		b = binary.BigEndian.AppendUint32(b, c.Offset)
	}
	if fields.upstream {
		b = append(b, c.Upstream...)
	}
	return cursorEncoding.EncodeToString(b)
}

// ParseCursor decodes the result of String. Every cursor has exactly one valid text. The error for any other text is
// ErrCursor.
func ParseCursor(s string) (Cursor, error) {
	if strings.ContainsAny(s, "\r\n") { // the decoder would skip these
		return Cursor{}, ErrCursor
	}
	b, err := cursorEncoding.DecodeString(s)
	if err != nil || len(b) < 6 || !CursorKind(b[1]).known() {
		return Cursor{}, ErrCursor
	}
	c := Cursor{Kind: CursorKind(b[1]), Name: binary.BigEndian.Uint32(b[2:])}
	fields := cursorKinds[c.Kind]
	proven := b[0] == provenCursor && fields.proof
	if b[0] != bareCursor && !proven {
		return Cursor{}, ErrCursor
	}
	b = b[6:]
	if fields.log {
		if len(b) < 16 {
			return Cursor{}, ErrCursor
		}
		c.Epoch, c.Position = binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
		b = b[16:]
	}
	if proven {
		if len(b) < 4 {
			return Cursor{}, ErrCursor
		}
		if c.Proof, b = binary.BigEndian.Uint32(b), b[4:]; c.Proof == 0 {
			return Cursor{}, ErrCursor
		}
	}
	if fields.feed {
		if len(b) < 12 {
			return Cursor{}, ErrCursor
		}
		c.Feed, c.Offset = binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
		b = b[12:]
	}
	if fields.upstream {
		c.Upstream, b = string(b), nil
	}
	if len(b) != 0 {
		return Cursor{}, ErrCursor
	}
	return c, nil
}

func (k CursorKind) known() bool { return k >= LogCursor && k <= ListCursor }

// NameHash returns the 32-bit FNV-1a hash of an event name, for cursors.
func NameHash(name string) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h ^= uint32(name[i])
		h *= 16777619
	}
	return h
}
