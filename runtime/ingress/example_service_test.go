package ingress_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A shop verifies the webhooks of a service that asks for a challenge by GET, signs its URL and the body, and sends
// several events in one request.
type shop struct {
	url    string // the URL that the service was given
	secret []byte
}

func (s *shop) Provider() string { return ingress.ProviderCustom }

func (s *shop) Receive(r *http.Request) (ingress.Result, error) {
	if challenge := r.URL.Query().Get("challenge"); r.Method == http.MethodGet && challenge != "" {
		plain := http.Header{"Content-Type": {"text/plain"}}
		return ingress.Result{Answer: &ingress.Answer{Header: plain, Body: []byte(challenge)}}, nil
	}
	if err := ingress.CheckJSON(r); err != nil {
		return ingress.Result{}, err
	}
	signature, err := base64.StdEncoding.DecodeString(r.Header.Get("X-Shop-Signature"))
	if err != nil || len(signature) == 0 {
		return ingress.Result{}, ingress.ErrHeaders
	}
	body, err := io.ReadAll(r.Body) // the Handler bounds it
	if err != nil {
		return ingress.Result{}, err
	}
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(s.url))
	mac.Write(body)
	if !hmac.Equal(signature, mac.Sum(nil)) {
		return ingress.Result{}, ingress.ErrSignature
	}
	if body, err = ingress.Unpack(r, body); err != nil {
		return ingress.Result{}, err
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(body, &batch); err != nil {
		return ingress.Result{}, err
	}
	var result ingress.Result
	for _, document := range batch {
		var e struct{ ID, Type string }
		if err := json.Unmarshal(document, &e); err != nil {
			return ingress.Result{}, err
		}
		result.Deliveries = append(result.Deliveries, ingress.Delivery{ID: e.ID, Event: e.Type, Body: document})
	}
	return result, nil
}

// signature is what the shop sends with a body.
func (s *shop) signature(body string) string {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(s.url + body))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// A type with two methods receives the webhooks of any service.
func ExampleService() {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "hooks", Version: "1"}, nil), server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(context.Background())
	emitter, err := server.Register(es, events.Type[struct{}, pushed]{Info: push}, server.Hooks[struct{}, pushed]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := &shop{url: "https://hooks.example.com/shop", secret: []byte("of the webhook")}
	handler, err := ingress.NewHandler(service, ingress.Options{}, ingress.To(emitter, push, ingress.From{
		Provider: ingress.ProviderCustom, Event: "push",
	}))
	if err != nil {
		fmt.Println(err)
		return
	}

	// What the service does.
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/shop?challenge=42", nil))
	fmt.Println(w.Code, w.Body)
	const body = `[{"id":"1","type":"push","repository":"a","ref":"main"},{"id":"2","type":"push","repository":"b","ref":"main"}]`
	r := httptest.NewRequest(http.MethodPost, "/shop", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Shop-Signature", service.signature(body))
	w = httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output:
	// 200 42
	// 204
}

// The page shows the service that is run here.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/ingress.md")
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.ReadFile("example_service_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for block := range strings.SplitSeq(string(page), "```go\n") {
		code, _, _ := strings.Cut(block, "```")
		if !strings.HasPrefix(code, "type shop") {
			continue
		}
		if shown++; !strings.Contains(string(here), code) {
			t.Errorf("docs/ingress.md shows what is not run:\n%s", code)
		}
	}
	if shown != 1 {
		t.Errorf("%d services are shown", shown)
	}
}
