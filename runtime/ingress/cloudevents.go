package ingress

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// CloudEventsOptions configures [NewCloudEvents].
type CloudEventsOptions struct {
	// Tokens lists the accepted tokens, which senders send as `Authorization: Bearer TOKEN`. List more than one during
	// rotation.
	Tokens []string
	// Origins lists the origins that may send events. "*" allows all origins. Before it sends events, a sender requests
	// permission with an OPTIONS request that contains its WebHook-Request-Origin. Other origins get 405.
	Origins []string
}

// A CloudEvents receives CloudEvents 1.0 over HTTP. It supports structured mode (application/cloudevents+json), batches
// (application/cloudevents-batch+json) and binary mode (attributes in ce-* headers, JSON data in the body). The
// delivery's event is the CloudEvent's type, and its time is the CloudEvent's time. Its id consists of source and id, a
// combination that the specification requires to be unique.
//
// In all modes, routes refer to the JSON format of the event: /data/order/id, /subject, /source. Attributes from
// headers are strings.
//
// CloudEvents are not signed. Only the token authenticates the sender, so the URL must be https.
type CloudEvents struct {
	serviceBase
	origins []string
}

// NewCloudEvents returns the service. At least one token is required, and each must have at least 8 bytes.
func NewCloudEvents(o CloudEventsOptions) (*CloudEvents, error) {
	s, err := newService(ProviderCloudEvents, o.Tokens)
	if err != nil {
		return nil, err
	}
	return &CloudEvents{s, slices.Clone(o.Origins)}, nil
}

// Receive checks the token and reads the events. It also responds to OPTIONS requests from senders that request
// permission.
func (c *CloudEvents) Receive(r *http.Request) (Result, error) {
	if r.Method == http.MethodOptions {
		if a := c.permission(r.Header); a != nil {
			return Result{Answer: a}, nil
		}
	}
	// An event without data does not have a body or a Content-Type.
	headersAlone := r.Method == http.MethodPost && r.ContentLength == 0 && r.Header.Get("Content-Type") == ""
	if err := CheckJSON(r); err != nil && !headersAlone {
		return Result{}, err
	}
	text, err := singleHeader(r.Header, "Authorization")
	if err != nil {
		return Result{}, err
	}
	scheme, token, ok := strings.Cut(text, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Result{}, ErrHeaders
	}
	if !c.hasToken(token) {
		return Result{}, ErrSignature
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return Result{}, err
	}
	if body, err = Unpack(r, body); err != nil {
		return Result{}, err
	}
	documents, err := parseEvents(r.Header, body)
	if err != nil {
		return Result{}, err
	}
	var result Result
	for _, document := range documents {
		d, err := readEvent(document)
		if err != nil {
			return Result{}, err
		}
		result.Deliveries = append(result.Deliveries, d)
	}
	return result, nil
}

// readEvent parses an event in its JSON format.
func readEvent(document []byte) (Delivery, error) {
	var e struct {
		Version string         `json:"specversion"`
		ID      string         `json:"id"`
		Source  string         `json:"source"`
		Type    string         `json:"type"`
		Time    jsontext.Value `json:"time"`
	}
	if err := decode(document, &e); err != nil {
		return Delivery{}, err
	}
	switch {
	case e.Version != "1.0":
		return Delivery{}, errors.New("specversion is not 1.0")
	case e.ID == "" || e.Source == "" || e.Type == "":
		return Delivery{}, errors.New("one of id, source and type is missing")
	}
	// A URI cannot contain a bar, so the bar separates source and id unambiguously.
	id := strings.ReplaceAll(e.Source, "|", "%7C") + "|" + e.ID
	return Delivery{ID: id, Event: e.Type, Time: parseTime(e.Time), Body: document}, nil
}

// attributePrefix is the prefix of headers that contain attributes.
const attributePrefix = "Ce-"

// parseEvents returns the events in a request, each in the JSON format.
func parseEvents(h http.Header, body []byte) ([]jsontext.Value, error) {
	media, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case media == "application/cloudevents+json":
		return []jsontext.Value{body}, nil
	case media == "application/cloudevents-batch+json":
		return parseArray(body)
	case strings.HasPrefix(media, "application/cloudevents"):
		return nil, &Refusal{http.StatusUnsupportedMediaType, "the format of the CloudEvents is not JSON"}
	}
	event, err := binaryEvent(h, media, body)
	return []jsontext.Value{event}, err
}

// binaryEvent converts an event in binary mode to the JSON format.
func binaryEvent(h http.Header, media string, body []byte) (jsontext.Value, error) {
	out := jsontext.Value("{")
	for _, name := range slices.Sorted(maps.Keys(h)) {
		attribute, ok := strings.CutPrefix(name, attributePrefix)
		if !ok {
			continue
		}
		attribute = strings.ToLower(attribute)
		if !isAttribute(attribute) || attribute == "data" || attribute == "datacontenttype" {
			return nil, errors.New("a ce- header is not a CloudEvents attribute")
		}
		values := h[name]
		if len(values) != 1 || len(values[0]) > maxHeader || !utf8.ValidString(values[0]) {
			return nil, fmt.Errorf("the header ce-%s is repeated, too long or not UTF-8", attribute)
		}
		out = appendMember(out, attribute, attributeValue(values[0]))
	}
	if media != "" {
		out = appendMember(out, "datacontenttype", h.Get("Content-Type"))
	}
	if len(bytes.TrimSpace(body)) > 0 {
		body, err := checkValue(body)
		if err != nil {
			return nil, err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, `"data":`...), body...)
	}
	return append(out, '}'), nil
}

func appendMember(out jsontext.Value, name, text string) jsontext.Value {
	if len(out) > 1 {
		out = append(out, ',')
	}
	out, _ = jsontext.AppendQuote(out, name)
	out = append(out, ':')
	out, _ = jsontext.AppendQuote(out, text)
	return out
}

// isAttribute reports whether name is a non-empty string of lower-case letters and digits.
func isAttribute(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// attributeValue decodes the value of a header (HTTP Protocol Binding 1.0.2, 3.1.3.2). It unquotes a quoted string and
// decodes percent-encoding. Some senders do not encode values, so a value with an invalid escape or invalid UTF-8 is
// returned unchanged.
func attributeValue(text string) string {
	if len(text) > 1 && strings.HasPrefix(text, `"`) && strings.HasSuffix(text, `"`) {
		text = unescaper.Replace(text[1 : len(text)-1])
	}
	if decoded, err := url.PathUnescape(text); err == nil && utf8.ValidString(decoded) {
		return decoded
	}
	return text
}

// unescaper replaces escape sequences in a quoted string.
var unescaper = strings.NewReplacer(`\\`, `\`, `\"`, `"`)

// permission returns the response to an OPTIONS request that asks for permission to deliver (HTTP 1.1 Web Hooks for
// Event Delivery, 4). It returns nil for any other OPTIONS request or if the origin is not allowed. Deliveries still
// need the token.
func (c *CloudEvents) permission(h http.Header) *Answer {
	origin, err := singleHeader(h, "WebHook-Request-Origin")
	if err != nil || !slices.Contains(c.origins, origin) && !slices.Contains(c.origins, "*") {
		return nil
	}
	a := &Answer{Header: http.Header{}}
	a.Header.Set("Allow", http.MethodPost)
	a.Header.Set("WebHook-Allowed-Origin", origin)
	if h.Get("WebHook-Request-Rate") != "" {
		a.Header.Set("WebHook-Allowed-Rate", "*")
	}
	return a
}
