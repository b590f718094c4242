// Package ingress receives the webhooks of services and turns them into occurrences of typed events. It knows GitHub,
// Stripe, Slack and GitLab, and services that follow Standard Webhooks, send CloudEvents or sign the body with an HMAC.
//
// A [Service] verifies the webhooks of one service; [NewGitHub] and its siblings make them. A [Route] says which
// webhooks become which event type; the generator writes it for event types with `from:` in the event file. [NewHandler] joins both to an http.Handler:
//
//	service, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{os.Getenv("GITHUB_SECRET")}})
//	…
//	handler, err := hooks.GitHubIngress{Push: push}.Handler(service, ingress.Options{}) // generated
//	…
//	mux.Handle("POST /github", handler)
//
// The service's id of a delivery becomes the eventId, so that what is delivered twice is emitted once while
// the log retains it (OCC-5). Signatures and tokens are checked over the bytes as received, in constant time, before
// anything is read from them.
package ingress
