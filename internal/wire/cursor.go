package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
)

// A CursorKind says what a [Cursor] points into.
type CursorKind uint8

// The kinds of cursors.
const (
	// LogCursor is a position in an event type's log: Name, Epoch, Position, Proof.
	LogCursor CursorKind = iota + 1
	// CheckCursor is a place upstream of a check source: Name, Feed, Upstream, Offset.
	CheckCursor
	// BothCursor is a place of a type with both sources: all fields.
	BothCursor
	// ListCursor is a page of events/list (LIST-1): Name, Epoch, Position, Upstream, whose meaning
	// is the lister's.
	ListCursor
)

// A Cursor is what an opaque cursor string stands for (CUR-1). Which fields count is said by its
// kind; the others are neither written nor read.
type Cursor struct {
	Kind CursorKind
	// Name is the NameHash of the event type, so that a foreign cursor is known as one (CUR-7).
	Name uint32
	// Epoch is the life of the log; Position the last entry passed in it.
	Epoch, Position uint64
	// Proof tells the entry at Position from another that has its place after an older copy of the
	// log was put back; 0 where it is not known.
	Proof uint32
	// Feed identifies the feed of a check: event, arguments and principal.
	Feed uint64
	// Upstream is the upstream's own cursor, any bytes; Offset how many of the items after it are
	// passed.
	Upstream string
	Offset   uint32
}

// The first byte of every cursor is its version. Another one is another format.
const (
	bareCursor   = 1 // without a proof
	provenCursor = 2
)

// ErrCursor is the error of ParseCursor. On the wire a bad cursor is an error in events/list only
// (LIST-1); elsewhere delivery goes on from the head (CUR-7).
var ErrCursor = errors.New("wire: malformed cursor")

type cursorFields struct{ log, proof, feed, upstream bool }

var cursorKinds = [...]cursorFields{
	LogCursor:   {log: true, proof: true},
	CheckCursor: {feed: true, upstream: true},
	BothCursor:  {log: true, proof: true, feed: true, upstream: true},
	ListCursor:  {log: true, upstream: true},
}

// base64url without padding; Strict refuses the stray bits that would give one cursor two texts.
var cursorEncoding = base64.RawURLEncoding.Strict()

// String encodes c: version, kind, name, then the fields of its kind in the order of the struct,
// numbers big-endian, Upstream last. The version says whether it has a proof. A cursor of no kind
// is "".
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

// ParseCursor decodes what String made and nothing else: a text that is accepted is the one text
// of its cursor. Anything else is ErrCursor.
func ParseCursor(s string) (Cursor, error) {
	if strings.ContainsAny(s, "\r\n") { // which the decoder would skip
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

// NameHash is the 32-bit FNV-1a hash of an event name, as cursors carry it.
func NameHash(name string) uint32 {
	h := uint32(2166136261)
	for i := range len(name) {
		h ^= uint32(name[i])
		h *= 16777619
	}
	return h
}
