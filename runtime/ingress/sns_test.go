package ingress_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"math/big"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

const (
	topicARN       = "arn:aws:sns:us-west-2:123456789012:orders"
	certificateURL = "https://sns.us-west-2.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
	subscribeURL   = "https://sns.us-west-2.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:aws:sns:us-west-2:123456789012:orders&Token=2336412f37"
)

// An awsHost is the transport to SNS: it has a certificate, and counts the requests by URL.
type awsHost struct {
	key      *rsa.PrivateKey
	pem      []byte
	down     atomic.Bool
	redirect string
	asked    []string
}

func newAWSHost(t testing.TB, until time.Duration) *awsHost {
	t.Helper()
	return newNamedHost(t, "sns.amazonaws.com", until)
}

func newNamedHost(t testing.TB, name string, until time.Duration) *awsHost {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(until)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &awsHost{key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *awsHost) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r.URL.String())
	answer := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a.pem)), Request: r}
	if a.down.Load() {
		return nil, errors.New("no route to host")
	}
	if a.redirect != "" {
		answer.StatusCode = 302
		answer.Header.Set("Location", a.redirect)
	}
	return answer, nil
}

// sign makes the members of a message and its signature, by the rule of "Verifying the signatures of Amazon SNS
// messages": the named members in byte order, each name and each value followed by a newline.
func (a *awsHost) sign(t *testing.T, members map[string]string) string {
	t.Helper()
	names := []string{"Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"}
	if members["Type"] != "Notification" {
		names = []string{"Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"}
	}
	text := ""
	for _, name := range names {
		if value, ok := members[name]; ok {
			text += name + "\n" + value + "\n"
		}
	}
	var signature []byte
	var err error
	if members["SignatureVersion"] == "1" {
		digest := sha1.Sum([]byte(text))
		signature, err = rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA1, digest[:])
	} else {
		digest := sha256.Sum256([]byte(text))
		signature, err = rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, digest[:])
	}
	if err != nil {
		t.Fatal(err)
	}
	signed := maps.Clone(members)
	signed["Signature"] = base64.StdEncoding.EncodeToString(signature)
	body, err := json.Marshal(signed)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func notification() map[string]string {
	return map[string]string{"Type": "Notification", "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324", "TopicArn": topicARN, "Subject": "My\nsubject",
		"Message": `{"repo":"a/b","number":7}`, "Timestamp": "2023-11-14T22:13:20.000Z", "SignatureVersion": "2", "SigningCertURL": certificateURL}
}

func confirmation() map[string]string {
	return map[string]string{"Type": "SubscriptionConfirmation", "MessageId": "165545c9", "Token": "2336412f37", "TopicArn": topicARN,
		"Message": "You have chosen to subscribe", "SubscribeURL": subscribeURL, "Timestamp": "2023-11-14T22:13:20.000Z", "SignatureVersion": "2", "SigningCertURL": certificateURL}
}

// snsHeader is what SNS sends: JSON as text.
func snsHeader(kind string) map[string]string {
	return map[string]string{"Content-Type": "text/plain; charset=UTF-8", "X-Amz-Sns-Message-Type": kind}
}

func sns(t *testing.T, a *awsHost, o ingress.SNSOptions) *ingress.SNS {
	t.Helper()
	o.Client = &http.Client{Transport: a}
	if o.Topics == nil {
		o.Topics = []string{topicARN}
	}
	s, err := ingress.NewSNS(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A notification of SNS becomes one occurrence under its MessageId (OCC-5), with the members of its message, and its
// certificate is fetched once.
func TestSNSNotification(t *testing.T) {
	a := newAWSHost(t, time.Hour)
	f := newFixture(t, sns(t, a, ingress.SNSOptions{JSON: true}), ingress.Options{}, ingress.From{Provider: "sns", Event: "orders",
		Fields: []ingress.Field{{Target: "/repo", Source: "/Message/repo"}, {Target: "/number", Source: "/Message/number"}, {Target: "/note", Source: "/Subject"}}})
	without := notification()
	delete(without, "Subject")
	without["MessageId"] = "another"
	for _, m := range []map[string]string{notification(), notification(), without} {
		if status := f.post(snsHeader("Notification"), a.sign(t, m)); status != http.StatusNoContent {
			t.Fatalf("status %d: %s", status, &f.log)
		}
	}
	got := f.received()
	if len(got) != 2 || got[0].EventID != notification()["MessageId"] || string(got[0].Data) != `{"repo":"a/b","number":7,"note":"My\nsubject"}` ||
		got[0].Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("received %+v", got)
	}
	if len(a.asked) != 1 || a.asked[0] != certificateURL {
		t.Errorf("asked for %q", a.asked)
	}
}

// A message that is not JSON is a string; with SNSOptions.JSON it is answered 400.
func TestSNSText(t *testing.T) {
	a := newAWSHost(t, time.Hour)
	m := notification()
	m["Message"] = "plain text"
	for asJSON, want := range map[bool]int{false: 204, true: 400} {
		f := newFixture(t, sns(t, a, ingress.SNSOptions{JSON: asJSON}), ingress.Options{}, ingress.From{Provider: "sns",
			Fields: []ingress.Field{{Target: "/repo", Source: "/Message"}, {Target: "/number", Source: "/n"}}})
		body := strings.Replace(a.sign(t, m), "{", `{"n":7,`, 1) // which nobody signs
		if status := f.post(snsHeader("Notification"), body); status != want {
			t.Errorf("JSON %v: status %d, want %d: %s", asJSON, status, want, &f.log)
		}
	}
}

// A subscription is confirmed by its URL, which must be of SNS, and only for a message that SNS signed for an accepted
// topic. SNS repeats it if that fails.
func TestSNSConfirmation(t *testing.T) {
	with := func(name, value string) map[string]string {
		m := confirmation()
		m[name] = value
		return m
	}
	for name, c := range map[string]struct {
		message map[string]string
		forge   string // replaces the URL after it was signed
		status  int
		asked   int
	}{
		"good":             {confirmation(), "", 200, 2},
		"another topic":    {with("TopicArn", topicARN+"2"), "", 401, 0},
		"forged":           {confirmation(), "https://sns.us-west-2.amazonaws.com/?Action=DeleteTopic", 401, 1},
		"another host":     {with("SubscribeURL", "https://evil.example.com/?Action=ConfirmSubscription"), "", 400, 1},
		"a host below":     {with("SubscribeURL", "https://sns.us-west-2.amazonaws.com.evil.example.com/"), "", 400, 1},
		"a user":           {with("SubscribeURL", "https://a@sns.us-west-2.amazonaws.com/"), "", 400, 1},
		"a port":           {with("SubscribeURL", "https://sns.us-west-2.amazonaws.com:8443/"), "", 400, 1},
		"plain":            {with("SubscribeURL", "http://sns.us-west-2.amazonaws.com/"), "", 400, 1},
		"no certificate":   {with("SigningCertURL", ""), "", 401, 0},
		"their own":        {with("SigningCertURL", "https://evil.example.com/SimpleNotificationService-0.pem"), "", 401, 0},
		"a bucket":         {with("SigningCertURL", "https://s3.us-west-2.amazonaws.com/evil/SimpleNotificationService-0.pem"), "", 401, 0},
		"another region":   {with("SigningCertURL", strings.Replace(certificateURL, "us-west-2", "us-east-1", 1)), "", 401, 0},
		"their bucket":     {with("SigningCertURL", strings.Replace(certificateURL, "us-west-2", "s3", 1)), "", 401, 0},
		"a bucket there":   {with("SigningCertURL", strings.Replace(certificateURL, "us-west-2", "s3-us-west-2", 1)), "", 401, 0},
		"another key":      {with("SigningCertURL", certificateURL+"#1"), "", 401, 0},
		"an empty query":   {with("SigningCertURL", certificateURL+"?"), "", 401, 0},
		"of another host":  {with("SubscribeURL", strings.Replace(subscribeURL, "us-west-2", "s3", 1)), "", 400, 1},
		"another file":     {with("SigningCertURL", "https://sns.us-west-2.amazonaws.com/?Action=Publish"), "", 401, 0},
		"version 1":        {with("SignatureVersion", "1"), "", 401, 0},
		"of unsubscribing": {with("Type", "UnsubscribeConfirmation"), "", 202, 1},
	} {
		a := newAWSHost(t, time.Hour)
		f := newFixture(t, sns(t, a, ingress.SNSOptions{}), ingress.Options{}, ingress.From{Provider: "sns"})
		body := a.sign(t, c.message)
		if c.forge != "" {
			body = strings.Replace(body, `"SubscribeURL":"`, `"SubscribeURL":"`+c.forge+`","Was":"`, 1)
		}
		w := f.answer(snsHeader(c.message["Type"]), body)
		if w.Code != c.status || len(a.asked) != c.asked || c.asked == 2 && a.asked[1] != subscribeURL {
			t.Errorf("%s: status %d, want %d; asked for %q\n%s", name, w.Code, c.status, a.asked, &f.log)
		}
	}
}

// A certificate that cannot be fetched makes SNS repeat the message; a redirect is not followed, and an expired
// certificate verifies nothing.
func TestSNSCertificate(t *testing.T) {
	a := newAWSHost(t, time.Hour)
	f := newFixture(t, sns(t, a, ingress.SNSOptions{}), ingress.Options{}, ingress.From{Provider: "sns"})
	post := func() int { return f.post(snsHeader("Notification"), a.sign(t, notification())) }
	a.down.Store(true)
	if status := post(); status != http.StatusServiceUnavailable {
		t.Errorf("SNS is not reached: status %d", status)
	}
	a.down.Store(false)
	a.redirect = "https://evil.example.com/"
	if status := post(); status != http.StatusServiceUnavailable || len(a.asked) != 2 {
		t.Errorf("a redirect: status %d, asked for %q", status, a.asked)
	}
	a.redirect = ""
	good := a.pem
	a.pem = []byte(strings.Repeat("x", 1<<20))
	if status := post(); status != http.StatusServiceUnavailable {
		t.Errorf("a file that is not a certificate: status %d", status)
	}
	a.pem = good
	if status := post(); status != http.StatusAccepted { // the payload does not fit
		t.Errorf("SNS is back: status %d: %s", status, &f.log)
	}

	old := newAWSHost(t, -time.Minute)
	if err := verify(sns(t, old, ingress.SNSOptions{}), headerOf(snsHeader("Notification")), []byte(old.sign(t, notification()))); !errors.Is(err, ingress.ErrSignature) {
		t.Errorf("an expired certificate: %v", err)
	}
	for name, want := range map[string]error{"sns.us-west-2.amazonaws.com": nil, "evil.example.com": ingress.ErrSignature, "sns.us-east-1.amazonaws.com": ingress.ErrSignature} {
		a := newNamedHost(t, name, time.Hour)
		if err := verify(sns(t, a, ingress.SNSOptions{}), headerOf(snsHeader("Notification")), []byte(a.sign(t, notification()))); !errors.Is(err, want) {
			t.Errorf("a certificate for %s: %v, want %v", name, err, want)
		}
	}
}

// Every signed member counts, and a message that is not of SNS is refused before its body is read.
func TestSNSRefuses(t *testing.T) {
	a := newAWSHost(t, time.Hour)
	s := sns(t, a, ingress.SNSOptions{})
	for name := range notification() {
		if name == "SignatureVersion" || name == "SigningCertURL" {
			continue
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(a.sign(t, notification())), &members); err != nil {
			t.Fatal(err)
		}
		members[name] = "forged"
		body, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		if verify(s, headerOf(snsHeader("Notification")), body) == nil {
			t.Errorf("%s is not verified", name)
		}
	}
	f := newFixture(t, s, ingress.Options{}, ingress.From{Provider: "sns"})
	for _, kind := range []string{"", "Guess"} {
		body := &endless{}
		r := request(headerOf(snsHeader(kind)), nil)
		r.Body, r.ContentLength = io.NopCloser(body), -1
		w := f.do(r)
		if w.Code != http.StatusUnauthorized || body.read > 0 {
			t.Errorf("type %q: %d after %d bytes", kind, w.Code, body.read)
		}
	}
	for _, topics := range [][]string{nil, {""}, {"orders"}, {topicARN, "arn:aws:sqs:us-west-2:123456789012:orders"},
		{"arn:aws:sns:s3:123456789012:orders"}, {"arn:aws:sns:evil.example.com/:1:orders"}, {"arn:aws-iso:sns:us-iso-east-1:123456789012:orders"}} {
		if _, err := ingress.NewSNS(ingress.SNSOptions{Topics: topics}); err == nil {
			t.Errorf("topics %q are accepted", topics)
		}
	}
	for region, host := range map[string]string{"aws-cn:sns:cn-north-1": "sns.cn-north-1.amazonaws.com.cn", "aws-us-gov:sns:us-gov-west-1": "sns.us-gov-west-1.amazonaws.com"} {
		a, m := newNamedHost(t, host, time.Hour), notification()
		m["TopicArn"] = "arn:" + region + ":123456789012:orders"
		m["SigningCertURL"] = strings.Replace(certificateURL, "sns.us-west-2.amazonaws.com", host, 1)
		s := sns(t, a, ingress.SNSOptions{Topics: []string{m["TopicArn"]}})
		if err := verify(s, headerOf(snsHeader("Notification")), []byte(a.sign(t, m))); err != nil {
			t.Errorf("%s: %v", region, err)
		}
	}
}
