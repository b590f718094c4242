package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// Sending: each attempt builds the body with the cursor of the moment and signs exactly that.
func ExampleSigner() {
	secret, err := webhook.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	cursor := "AQJr0w"
	body, err := webhook.Occurrence{
		EventID: "evt_1", Name: "incident.created", Timestamp: "2026-11-20T08:00:00Z", Data: []byte(`{"severity":"P1"}`),
	}.Body(&cursor)
	if err != nil {
		fmt.Println(err)
		return
	}
	h := http.Header{}
	err = webhook.Signer{Ring: webhook.NewRing(secret)}.Sign(h, webhook.Message{ID: "evt_1", Subscription: "sub_1", Body: body}, time.Unix(1795161600, 0))
	fmt.Println(h.Get("webhook-signature"), err)
	// Output: v1,QAzFwq1YmOLdeVNG/MsvjsQQxCmDlpt+5UxgQmL6zKc= <nil>
}

// Receiving: the endpoint is open before events/subscribe is called with its URL and secret.
func ExampleReceiver() {
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(receiver) // in production: TLS
	defer server.Close()

	endpoint, err := receiver.Open(webhook.EndpointOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer endpoint.Close()
	url, secret := server.URL+endpoint.Path(), endpoint.Secret()

	// The server verifies the endpoint while events/subscribe is under way …
	post := func(m webhook.Message) {
		req, err := webhook.Signer{Ring: webhook.NewRing(secret)}.NewRequest(context.Background(), url, m)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		fmt.Println(strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, body)))
	}
	post(webhook.Message{ID: "msg_verification_1", Subscription: "sub_1", Body: []byte(`{"type":"verification","challenge":"nonce"}`)})
	event := webhook.Message{ID: "evt_1", Subscription: "sub_1", Body: []byte(`{"eventId":"evt_1","name":"incident.created","timestamp":"2026-11-20T08:00:00Z","data":{}}`)}
	post(event)

	// … and its answer brings the id that makes the endpoint routable.
	endpoint.Activate("sub_1", func(_ context.Context, d webhook.Delivery) error {
		fmt.Println("took", d.Occurrence.Name)
		return nil
	})
	post(event)
	post(event)
	// Output:
	// 200 {"challenge":"nonce"}
	// 503
	// took incident.created
	// 204
	// 204
}

// Consent: the document tells servers that everything below the receiver's prefix may be called.
func ExampleReceiver_WellKnown() {
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{Prefix: "/hooks/"})
	if err != nil {
		fmt.Println(err)
		return
	}
	document, err := receiver.WellKnown("")
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/hooks/", receiver)
	mux.Handle(webhook.PathReceivers, document)
	server := httptest.NewServer(mux) // in production: TLS
	defer server.Close()

	resp, err := server.Client().Get(server.URL + "/.well-known/mcp-webhook-receiver.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: {"receivers":["/hooks/"]}
}
