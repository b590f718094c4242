package ledger

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func TestOver(t *testing.T) {
	ended, revoked := &wire.ErrorObject{Code: 1}, wire.ErrorObject{Code: 2}
	revocations := &Revocations{map[string]Revocation{"ticket": {at(20), revoked}}}
	for name, c := range map[string]struct {
		s    Subscription
		r    *Revocations
		now  time.Time
		code int64 // 0 for no reason
		over bool
	}{
		"without expiry":     {Subscription{}, nil, at(1000), 0, false},
		"before its expiry":  {Subscription{ExpiresAt: at(10)}, nil, at(9), 0, false},
		"at its expiry":      {Subscription{ExpiresAt: at(10)}, nil, at(10), 0, true},
		"ended":              {Subscription{Ended: ended, ExpiresAt: at(10)}, revocations, at(10), 1, true},
		"begun before":       {Subscription{CreatedAt: at(20), Shard: Shard{Topic: "ticket"}}, revocations, at(30), 2, true},
		"begun later":        {Subscription{CreatedAt: at(21), Shard: Shard{Topic: "ticket"}}, revocations, at(30), 0, false},
		"another event type": {Subscription{CreatedAt: at(20), Shard: Shard{Topic: "other"}}, revocations, at(30), 0, false},
	} {
		reason, over := Over(&c.s, c.r, c.now)
		var code int64
		if reason != nil {
			code = reason.Code
		}
		if over != c.over || code != c.code {
			t.Errorf("%s: over %v with %d", name, over, code)
		}
	}
}
