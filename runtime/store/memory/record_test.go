package memory

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// SUB-6: a subscription without expiry ends with its caller's token, which may be in any year.
func TestFarExpiry(t *testing.T) {
	s := New()
	defer s.Close()
	at, century := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Now().AddDate(100, 0, 0)
	if _, err := s.PutSubscription(t.Context(), store.Subscription{ID: "sub", ExpiresAt: at, Secrets: []store.Secret{{NotAfter: at}}}); err != nil {
		t.Fatal(err)
	}
	sub, ok, err := s.Subscription(t.Context(), "sub")
	if err != nil || !ok || sub.ExpiresAt.Before(century) || sub.Secrets[0].NotAfter.Before(century) {
		t.Errorf("got %v, %t, %v", sub.ExpiresAt, ok, err)
	}
}
