package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Tokens returns a simple Authenticate function for a fixed set of tokens. The map contains the token of each actor. A
// caller sends its token as a bearer token or, from a browser, as the password of any user. Empty tokens are ignored.
func Tokens(byActor map[string]string) func(*http.Request) (string, error) {
	type pair struct {
		actor string
		sum   [sha256.Size]byte
	}
	var all []pair
	for actor, token := range byActor {
		if token != "" {
			all = append(all, pair{actor, sha256.Sum256([]byte(token))})
		}
	}
	return func(r *http.Request) (string, error) {
		_, given, ok := r.BasicAuth()
		if scheme, bearer, found := strings.Cut(r.Header.Get("Authorization"), " "); !ok && found && strings.EqualFold(scheme, "Bearer") {
			given, ok = bearer, true
		}
		sum := sha256.Sum256([]byte(given))
		actor := ""
		found := false
		for _, p := range all {
			if subtle.ConstantTimeCompare(p.sum[:], sum[:]) == 1 {
				actor, found = p.actor, true
			}
		}
		if !ok || !found {
			return "", ErrUnauthenticated
		}
		return actor, nil
	}
}
