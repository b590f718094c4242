package ledger

import (
	"errors"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// validKey returns the error with which engines refuse a commit that writes the key.
func validKey(key string) error {
	return (&store.Commit{Call: 1, Writes: []store.Write{{Key: key, Value: used}}}).Validate()
}

func TestEscape(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"ticket.created", "/outbox", "a=b", "a=3Db", "ä", "\x00\xff", " ", "a/b", ".", strings.Repeat("/", 50)} {
		segment := escape(name)
		if err := validKey(segment); err != nil || strings.Contains(segment, "/") {
			t.Errorf("%q becomes %q: %v", name, segment, err)
		}
		if got, ok := unescape(segment); !ok || got != name {
			t.Errorf("%q becomes %q and then %q", name, segment, got)
		}
		if other, twice := seen[segment]; twice {
			t.Errorf("%q and %q both become %q", name, other, segment)
		}
		seen[segment] = name
		if err := checkName("x", name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"", strings.Repeat("/", 51), strings.Repeat("x", maxSegment+1), strings.Repeat("x", 1<<20)} {
		if err := checkName("x", name); !errors.Is(err, ErrName) || len(err.Error()) > 300 {
			t.Errorf("%d bytes: %v", len(name), err)
		}
		if segment := escape(name); validKey(subKey(name)) != nil || seen[segment] != "" {
			t.Errorf("%d bytes become %q", len(name), segment)
		} else if got, ok := unescape(segment); ok {
			t.Errorf("%q is read as %q", segment, got)
		}
	}
}

// The longest names fit in the longest keys.
func TestKeysFit(t *testing.T) {
	long := strings.Repeat("x", maxSegment)
	s := Subscription{ID: long, Principal: "p", URL: "u", Shard: Shard{Topic: long, Number: MaxShards}}
	keys := s.keys()
	for _, k := range append(keys[:], shardKey(s.Shard), leaseKey(long), schemaKey(long, 1<<30), attemptPrefix(long)+strings.Repeat("x", 24)) {
		if err := validKey(k); err != nil {
			t.Error(err)
		}
	}
}

func TestParseChange(t *testing.T) {
	s := Subscription{ID: "sub_1", Shard: Shard{Topic: "a/b", Number: 12}}
	for name, want := range map[string]Change{
		s.keys()[1]:                      {Kind: SubscriptionChanged, Topic: "a/b", Number: 12, ID: "sub_1"},
		topicKey(familyClosed, "a/b"):    {Kind: TopicChanged, Topic: "a/b"},
		topicKey(familySchema, "ticket"): {Kind: TopicChanged, Topic: "ticket"},
		leaseKey("x"):                    {Kind: MembersChanged},
		shardKey(s.Shard):                {Kind: MembersChanged},
		"":                               {},
		"pro/a/x/b":                      {},
		"pro/=zz/1/b":                    {},
		"topic/a=":                       {},
		"other/x":                        {},
	} {
		if got := ParseChange(name); got != want {
			t.Errorf("%q: %+v, want %+v", name, got, want)
		}
	}
	if c := ParseChange(revokedKey("ann")); !c.Revokes("ann") || c.Revokes("bob") || ParseChange(leaseKey("ann")).Revokes("ann") {
		t.Errorf("%+v", c)
	}
}
