package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// authentication returns a handler that checks the bearer token of a request, if it has one. Requests without a token
// have the principal of
// -anonymous-as.
func authentication(file string) (func(http.Handler) http.Handler, error) {
	principals := map[string]string{}
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(b, &principals); err != nil {
			return nil, fmt.Errorf("%s: want a JSON object of token to principal: %w", file, err)
		}
	}
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		principal, ok := principals[token]
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: principal}, nil
	}
	require := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	return func(next http.Handler) http.Handler {
		checked := transport.Challenge(require(next))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				next.ServeHTTP(w, r)
				return
			}
			checked.ServeHTTP(w, r)
		})
	}, nil
}
