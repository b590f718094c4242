package oauth_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpe-gen/mcpe-gen/runtime/oauth"
)

// A server accepts the tokens that its own function verifies, and tells other clients where to get one.
func ExampleResource() {
	resource, err := oauth.New(oauth.Options{
		URL:    "https://mcp.example.com/mcp",
		Issuer: "https://id.example.com",
		Verify: func(_ context.Context, token string) (*auth.TokenInfo, error) {
			if token != "good" { // a program checks the signature, issuer, audience and expiry
				return nil, auth.ErrInvalidToken
			}
			return &auth.TokenInfo{UserID: "ada"}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	resource.Register(mux)
	mux.Handle("/mcp", resource.RequireToken(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // transport.NewHandler in a program
		fmt.Fprint(w, "hello ", auth.TokenInfoFromContext(r.Context()).UserID)
	})))

	for _, token := range []string{"good", "guessed"} {
		r, w := httptest.NewRequest(http.MethodPost, "/mcp", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer "+token)
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
		fmt.Println(w.Header().Get("WWW-Authenticate"))
	}
	// Output:
	// 200 hello ada
	//
	// 401 invalid token
	// Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"
}
