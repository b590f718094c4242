package ingress

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SNSOptions configures [NewSNS].
type SNSOptions struct {
	// Topics lists the ARNs of the accepted topics. The messages of every topic in every AWS account have valid
	// signatures, so a message is authorized only by its topic. The partitions aws, aws-us-gov and aws-cn are supported.
	Topics []string
	// JSON specifies that each Message is parsed as JSON. Routes can then refer to its members, such as
	// /Message/detail/state. Otherwise Message is a string.
	JSON bool
	// Client fetches signing certificates and confirms subscriptions. If it is nil, http.DefaultClient is used.
	// Redirects are not followed, and requests have a timeout of 5 s.
	Client *http.Client
}

// An SNS verifies messages from Amazon SNS with their version 2 signature (RSA and SHA-256). The delivery's event is
// the topic's name, its id is the MessageId, and its time is the Timestamp. It confirms subscriptions to the accepted
// topics.
//
// Version 2 must be enabled: `aws sns set-topic-attributes --attribute-name SignatureVersion --attribute-value 2`.
// Messages from subscriptions with raw message delivery do not have a signature and are refused.
//
// SNS signs the time of publication and may repeat a message for up to an hour, so Receive accepts old messages.
// Because of the eventId, a repeated message is not emitted twice while the log retains it.
type SNS struct {
	hosts map[string]string // of SNS, by topic
	json  bool
	aws   *awsClient
}

// NewSNS returns the service. At least one topic is required, and each topic must be the ARN of an SNS topic.
func NewSNS(o SNSOptions) (*SNS, error) {
	if len(o.Topics) == 0 {
		return nil, errors.New("ingress: sns: no topic given: without one anybody with an AWS account could send events")
	}
	hosts := map[string]string{}
	for _, arn := range o.Topics {
		host, ok := snsHostOf(arn)
		if !ok {
			return nil, fmt.Errorf("ingress: sns: %q is not the ARN of a topic, such as arn:aws:sns:us-east-1:123456789012:orders", arn)
		}
		hosts[arn] = host
	}
	return &SNS{hosts, o.JSON, newAWSClient(cmp.Or(o.Client, http.DefaultClient))}, nil
}

// Provider returns the name of the service for routes.
func (*SNS) Provider() string { return ProviderSNS }

// MaxBody returns the size limit of a body. It is 2 MiB, since a message has up to 256 KiB and JSON can encode each byte
// with up to six bytes.
func (*SNS) MaxBody() int64 { return 2 << 20 }

// Message types in the header and in the body.
const (
	snsNotification = "Notification"
	snsConfirmation = "SubscriptionConfirmation"
	snsUnsubscribed = "UnsubscribeConfirmation"
)

// An snsMessage is the body of a request.
type snsMessage struct {
	Type, MessageId, TopicArn, Message, Timestamp, Token, SubscribeURL string
	SignatureVersion, Signature, SigningCertURL                        string
	Subject                                                            *string
}

// Receive checks the topic and the signature, and decodes the message or confirms the subscription.
func (s *SNS) Receive(r *http.Request) (Result, error) {
	if r.Method != http.MethodPost { // SNS sends JSON as text/plain
		return Result{}, &Refusal{http.StatusMethodNotAllowed, "the method is not POST"}
	}
	kind, err := singleHeader(r.Header, "X-Amz-Sns-Message-Type")
	if err != nil || !slices.Contains([]string{snsNotification, snsConfirmation, snsUnsubscribed}, kind) {
		return Result{}, ErrHeaders
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return Result{}, err
	}
	if body, err = Unpack(r, body); err != nil {
		return Result{}, err
	}
	var m snsMessage
	err = decode(body, &m)
	host, ok := s.hosts[m.TopicArn]
	if err != nil || m.Type != kind || !ok {
		return Result{}, fmt.Errorf("%w: the body is not a message of an accepted topic", ErrHeaders)
	}
	if err := s.verify(r, host, &m); err != nil {
		return Result{}, err
	}
	switch m.Type {
	case snsConfirmation:
		return Result{Answer: &Answer{}}, s.aws.confirmSubscription(r.Context(), host, m.SubscribeURL)
	case snsUnsubscribed:
		return Result{}, nil
	}
	if m.MessageId == "" {
		return Result{}, errors.New("MessageId is missing")
	}
	if s.json {
		if body, err = withJSONMessage(body, m.Message); err != nil {
			return Result{}, err
		}
	}
	at, _ := time.Parse(time.RFC3339Nano, m.Timestamp)
	topic := m.TopicArn[strings.LastIndexByte(m.TopicArn, ':')+1:]
	return singleDelivery(Delivery{ID: m.MessageId, Event: topic, Time: at, Body: body}), nil
}

// verify checks the signature of a message with the certificate from the topic's SNS host.
func (s *SNS) verify(r *http.Request, host string, m *snsMessage) error {
	signature, err := base64.StdEncoding.DecodeString(m.Signature)
	if err != nil || m.SignatureVersion != "2" {
		return fmt.Errorf("%w: the message has no signature of version 2", ErrHeaders)
	}
	certificate, err := s.aws.fetchCertificate(r.Context(), host, m.SigningCertURL)
	if err != nil {
		return err
	}
	if certificate.CheckSignature(x509.SHA256WithRSA, []byte(m.signedText()), signature) != nil {
		return ErrSignature
	}
	return nil
}

// signedText returns the text that SNS signs. It contains the names and values of members in alphabetical order, each
// on a separate line.
func (m *snsMessage) signedText() string {
	var text strings.Builder
	line := func(name, value string) { text.WriteString(name + "\n" + value + "\n") }
	line("Message", m.Message)
	line("MessageId", m.MessageId)
	if m.Type == snsNotification {
		if m.Subject != nil {
			line("Subject", *m.Subject)
		}
		line("Timestamp", m.Timestamp)
	} else {
		line("SubscribeURL", m.SubscribeURL)
		line("Timestamp", m.Timestamp)
		line("Token", m.Token)
	}
	line("TopicArn", m.TopicArn)
	line("Type", m.Type)
	return text.String()
}

// withJSONMessage replaces the text of Message with the JSON value that it contains.
func withJSONMessage(body []byte, message string) ([]byte, error) {
	value, err := checkValue([]byte(message))
	if err != nil {
		return nil, errors.New("the Message is not JSON, as SNSOptions.JSON says")
	}
	var members map[string]jsontext.Value
	if err := decode(body, &members); err != nil {
		return nil, err
	}
	members["Message"] = jsontext.Value(value)
	return jsonv2.Marshal(members, jsonv2.Deterministic(true))
}
