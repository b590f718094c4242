package ingress

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// DiscordOptions configures [NewDiscord].
type DiscordOptions struct {
	// PublicKeys lists the accepted public keys of the application, in the hex form that Discord shows. The request
	// must be signed with one of these keys.
	PublicKeys []string
	// Tolerance is the maximum difference between a timestamp and the local clock. If it is 0, DefaultTolerance is
	// used.
	Tolerance time.Duration
}

// A Discord verifies requests from Discord with the Ed25519 signature in X-Signature-Ed25519, and responds to PINGs.
// For webhook events, the delivery's event is the type of the inner event, and its time is the timestamp. Its id is a
// hash of the body, because Discord does not send an id. For interactions, the event is APPLICATION_COMMAND,
// MESSAGE_COMPONENT or MODAL_SUBMIT. The action is the command's name or the component's custom_id, and the id is the
// interaction's id.
//
// Receive responds to an interaction with a deferred response. The program must send the text of the response within 15
// minutes, with the token from the body. It responds to an autocompletion request without choices and does not treat it
// as an event.
type Discord struct {
	keys      []ed25519.PublicKey
	tolerance time.Duration
}

// NewDiscord returns the service. At least one key is required, and each key must be 32 bytes in hex.
func NewDiscord(o DiscordOptions) (*Discord, error) {
	d := &Discord{tolerance: o.Tolerance}
	if len(o.PublicKeys) == 0 {
		return nil, errors.New("ingress: discord: no public key given: without one anybody could send events")
	}
	for i, text := range o.PublicKeys {
		key, err := hex.DecodeString(text)
		if err != nil || len(key) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("ingress: discord: public key %d of %d must be %d bytes in hex", i+1, len(o.PublicKeys), ed25519.PublicKeySize)
		}
		d.keys = append(d.keys, key)
	}
	return d, nil
}

// Provider returns the name of the service for routes.
func (*Discord) Provider() string { return ProviderDiscord }

// Receive verifies X-Signature-Ed25519 over X-Signature-Timestamp and the body, and decodes the event or the
// interaction.
func (d *Discord) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	stamp, err := freshHeader(r.Header, "X-Signature-Timestamp", d.tolerance)
	if err != nil {
		return Result{}, err
	}
	signature, err := hexHeader(r.Header, "X-Signature-Ed25519", "")
	if err != nil {
		return Result{}, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return Result{}, err
	}
	if !d.isSigned(append([]byte(stamp), body...), signature) {
		return Result{}, ErrSignature
	}
	if body, err = Unpack(r, body); err != nil {
		return Result{}, err
	}
	return discordBody(body)
}

func (d *Discord) isSigned(message, signature []byte) bool {
	return slices.ContainsFunc(d.keys, func(key ed25519.PublicKey) bool { return ed25519.Verify(key, message, signature) })
}

// An interaction describes an interaction type with its name and the response that Discord expects.
type interaction struct{ event, answer string }

// interactions maps Discord's type numbers to types of interactions.
var interactions = map[int]interaction{
	1: {"", `{"type":1}`}, // PING
	2: {"APPLICATION_COMMAND", `{"type":5}`},
	3: {"MESSAGE_COMPONENT", `{"type":6}`},
	4: {"", `{"type":8,"data":{"choices":[]}}`}, // APPLICATION_COMMAND_AUTOCOMPLETE
	5: {"MODAL_SUBMIT", `{"type":5}`},
}

// discordBody decodes the body of a verified request, which is a webhook event, a PING of type 0, or an interaction.
func discordBody(body []byte) (Result, error) {
	var b struct {
		Type int    `json:"type"`
		ID   string `json:"id"`
		Data struct {
			Name     string `json:"name"`
			CustomID string `json:"custom_id"`
		} `json:"data"`
		Event struct {
			Type      string `json:"type"`
			Timestamp string `json:"timestamp"`
		} `json:"event"`
	}
	if err := decode(body, &b); err != nil {
		return Result{}, err
	}
	if b.Event.Type != "" {
		// Discord's documentation shows UTC times without an offset.
		at, _ := time.Parse("2006-01-02T15:04:05", strings.TrimSuffix(strings.TrimSuffix(b.Event.Timestamp, "Z"), "+00:00"))
		return singleDelivery(Delivery{ID: bodyID(body), Event: b.Event.Type, Time: at, Body: body}), nil
	}
	if b.Type == 0 {
		return Result{Answer: &Answer{Status: http.StatusNoContent}}, nil
	}
	kind, ok := interactions[b.Type]
	if !ok {
		return Result{}, errors.New("the type of the interaction is unknown")
	}
	answer := &Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(kind.answer)}
	if kind.event == "" {
		return Result{Answer: answer}, nil
	}
	if b.ID == "" {
		return Result{}, errors.New("the id of the interaction is missing")
	}
	d := Delivery{ID: b.ID, Event: kind.event, Action: b.Data.Name + b.Data.CustomID, Body: body}
	return Result{Deliveries: []Delivery{d}, Answer: answer}, nil
}
