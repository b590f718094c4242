// Package ingress receives webhooks from services and emits them as occurrences of typed events.
//
// A [Service] verifies the requests of one service and reads the deliveries in them. [NewGitHub] and its siblings
// create the supported services; any other service is a type with two methods:
//
//	func (s *shop) Provider() string { return ingress.ProviderCustom }
//
//	func (s *shop) Receive(r *http.Request) (ingress.Result, error) {
//		body, err := io.ReadAll(r.Body) // bounded by the Handler
//		if err != nil {
//			return ingress.Result{}, err
//		}
//		if !s.signed(r.Header.Get("X-Signature"), body) {
//			return ingress.Result{}, ingress.ErrSignature
//		}
//		…
//		return ingress.Result{Deliveries: []ingress.Delivery{{ID: id, Event: event, Body: body}}}, nil
//	}
//
// A [Route] maps deliveries to an event type. The generator writes a route for each event type with `from:` in the
// event file. [NewHandler] combines both into an http.Handler:
//
//	service, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{os.Getenv("GITHUB_SECRET")}})
//	…
//	handler, err := hooks.GitHubIngress{Push: push}.Handler(service, ingress.Options{}) // generated
//	…
//	mux.Handle("/github", handler)
//
// The eventId is the service's id of the delivery, so a repeated delivery is emitted only once while the log retains it
// (OCC-5). The services in this package verify signatures and tokens in constant time over the bytes as received,
// before parsing them.
package ingress
