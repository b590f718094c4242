package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
)

// The families of keys: their first segments. See the package comment.
const (
	familySub      = "sub"
	familyProgress = "pro"
	familyUse      = "use"
	familyQuota    = "quota"
	familyVerified = "ver"
	familyRevoked  = "revoked"
	familyTopic    = "topic"
	familyGap      = "gap"
	familyRaise    = "raise"
	familyRecheck  = "recheck"
	familyClosed   = "closed"
	familySchema   = "schema"
	familyMark     = "mark"
	familyAttempt  = "att"
	familyAction   = "act"
	familyCursor   = "cur"
	familyCallback = "cb"
	familyReceived = "rcv"
	familyLetter   = "dl"
	familySource   = "src"
	familySchedule = "sch"
	familyQueue    = "que"

	leasePrefix = engine.LivePrefix + "lease/"
	shardPrefix = engine.LivePrefix + "shard/"
	checkKey    = "key/check"
)

// maxSegment bounds a segment that names something: two of them fit in a key with room to spare.
const maxSegment = 150

// ErrName is returned for a name, an ID or a text that records cannot contain.
var ErrName = errors.New("ledger: the name cannot be stored")

// checkName returns an error that matches [ErrName] unless the name fits in a segment of a key.
func checkName(what, name string) error {
	if n := escapedLen(name); name == "" || n > maxSegment {
		return fmt.Errorf("%w: %s %.40q… has %d bytes; use 1 to %d, where each byte other than letters, digits and \"-_.\" counts three times",
			ErrName, what, name, n, maxSegment)
	}
	return nil
}

// checkTexts returns an error that matches [ErrName] unless JSON can contain the principal and the URL.
func checkTexts(principal, url string) error {
	if !utf8.ValidString(principal) || !utf8.ValidString(url) {
		return fmt.Errorf("%w: the principal %.40q… or the URL %.40q… is not valid UTF-8", ErrName, principal, url)
	}
	return nil
}

func escapedLen(name string) (n int) {
	for i := range len(name) {
		if n++; !plain(name[i]) {
			n += 2
		}
	}
	return n
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

// escape returns a name as a segment of a key. A byte that a key cannot contain becomes "=" and two hexadecimal digits.
// A name that does not fit becomes a segment under which nothing is stored.
func escape(name string) string {
	n := escapedLen(name)
	switch {
	case n == 0 || n > maxSegment:
		return "=none"
	case n == len(name):
		return name
	}
	b := make([]byte, 0, n)
	for i := range len(name) {
		if c := name[i]; plain(c) {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "=%02X", c)
		}
	}
	return string(b)
}

// unescape is the reverse of escape.
func unescape(segment string) (name string, ok bool) {
	if !strings.Contains(segment, "=") {
		return segment, segment != ""
	}
	var b []byte
	for i := 0; i < len(segment); i++ {
		if segment[i] != '=' {
			b = append(b, segment[i])
			continue
		}
		if i+2 >= len(segment) {
			return "", false
		}
		c, err := strconv.ParseUint(segment[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b = append(b, byte(c))
		i += 2
	}
	return string(b), true
}

// hash returns a segment for any texts: 128 bits of a hash.
func hash(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d %s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func join(segments ...string) string { return strings.Join(segments, "/") }

func lastSegment(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

func subKey(id string) string { return familySub + "/" + escape(id) }

func progressKey(s Shard, id string) string {
	return join(familyProgress, shardSegments(s), escape(id))
}

func useKey(principal, url, id string) string {
	return join(familyUse, hash(principal), hash(url), escape(id))
}

func shardSegments(s Shard) string { return escape(s.Topic) + "/" + strconv.Itoa(s.Number) }

func topicKey(family, topic string) string { return family + "/" + escape(topic) }

func revokedKey(principal string) string { return join(familyRevoked, hash(principal)) }

// A Change is a change of a record, as a name of [engine.Changed] reports it.
type Change struct {
	Kind ChangeKind
	// Topic is the event type, for the changes of one.
	Topic string
	// Number and ID are those of the shard and of the subscription, for [SubscriptionChanged].
	Number int
	ID     string

	principal string // its hash
}

// A ChangeKind is a kind of [Change].
type ChangeKind int

const (
	// OtherChange is of a kind that this build does not know.
	OtherChange ChangeKind = iota
	// SubscriptionChanged tells the owner of a shard to reread a subscription.
	SubscriptionChanged
	// PrincipalRevoked means that subscriptions of a principal were revoked; see [Change.Revokes].
	PrincipalRevoked
	// TopicChanged means that an order about an event type was given, or that its state or schemas have changed.
	TopicChanged
	// MembersChanged means that a lease or the holder of a shard has changed.
	MembersChanged
)

// ParseChange parses a name that [engine.Engine.Changes] has reported.
func ParseChange(name string) Change {
	segments := strings.Split(name, "/")
	switch family := segments[0]; {
	case family == familyProgress && len(segments) == 4:
		topic, ok := unescape(segments[1])
		id, okID := unescape(segments[3])
		n, err := strconv.Atoi(segments[2])
		if ok && okID && err == nil {
			return Change{Kind: SubscriptionChanged, Topic: topic, Number: n, ID: id}
		}
	case family == familyRevoked && len(segments) == 2:
		return Change{Kind: PrincipalRevoked, principal: segments[1]}
	case strings.HasPrefix(name, engine.LivePrefix):
		return Change{Kind: MembersChanged}
	case len(segments) == 2:
		switch family {
		case familyTopic, familyGap, familyRaise, familyRecheck, familyClosed, familySchema:
			if topic, ok := unescape(segments[1]); ok {
				return Change{Kind: TopicChanged, Topic: topic}
			}
		}
	}
	return Change{}
}

// Revokes reports whether the change revokes subscriptions of the principal.
func (c Change) Revokes(principal string) bool {
	return c.Kind == PrincipalRevoked && c.principal == hash(principal)
}
