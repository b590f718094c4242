package ingress

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
)

// Limits for the requests and the cache of an awsClient.
const (
	awsTimeout      = 5 * time.Second
	awsFetches      = 4        // requests at the same time
	awsAnswer       = 64 << 10 // bytes of a response
	awsCertificates = 8        // SNS has one per region and replaces it within a year
)

// An awsClient fetches the signing certificates of SNS and confirms subscriptions. It sends requests only to the SNS
// hosts of the topics.
type awsClient struct {
	http  *http.Client
	slots chan struct{} // holds a value for each request in flight

	mu           sync.Mutex
	certificates map[string]*x509.Certificate // by URL
}

func newAWSClient(c *http.Client) *awsClient {
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &awsClient{http: &own, slots: make(chan struct{}, awsFetches), certificates: map[string]*x509.Certificate{}}
}

// Patterns for regions of AWS and for the paths of SNS certificates.
var (
	awsRegion          = regexp.MustCompile(`^[a-z]+(-[a-z]+)+-[0-9]+$`)
	snsCertificatePath = regexp.MustCompile(`^/SimpleNotificationService-[A-Za-z0-9]+\.pem$`)
)

// snsName is the name in the certificates of SNS.
const snsName = "sns.amazonaws.com"

// snsHostOf returns the SNS host of a topic's region. No other host is trusted: names such as sns.s3.amazonaws.com belong
// to the owner of the bucket "sns".
func snsHostOf(arn string) (host string, ok bool) {
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "sns" || !awsRegion.MatchString(parts[3]) || parts[5] == "" {
		return "", false
	}
	switch host = "sns." + parts[3] + ".amazonaws.com"; parts[1] {
	case "aws", "aws-us-gov":
		return host, true
	case "aws-cn":
		return host + ".cn", true
	}
	return "", false
}

var (
	errCertificate = &Refusal{http.StatusServiceUnavailable, "the certificate of the signature could not be fetched from SNS"}
	errConfirm     = &Refusal{http.StatusServiceUnavailable, "SNS did not confirm the subscription"}
)

// fetchCertificate returns the certificate at a URL of the host, from the cache if possible. SNS publishes it without the
// chain, so only its name and the host are checked.
func (c *awsClient) fetchCertificate(ctx context.Context, host, at string) (*x509.Certificate, error) {
	path, ok := strings.CutPrefix(at, "https://"+host)
	if !ok || !snsCertificatePath.MatchString(path) {
		return nil, ErrHeaders
	}
	c.mu.Lock()
	certificate := c.certificates[at]
	c.mu.Unlock()
	if certificate == nil {
		text, err := c.get(ctx, at)
		if err != nil {
			return nil, errCertificate
		}
		if certificate, err = parseCertificate(text); err != nil {
			return nil, errCertificate
		}
		if certificate.VerifyHostname(snsName) != nil && certificate.VerifyHostname(host) != nil {
			return nil, ErrSignature
		}
		c.store(at, certificate)
	}
	if now := time.Now(); now.Before(certificate.NotBefore) || now.After(certificate.NotAfter) {
		return nil, ErrSignature
	}
	return certificate, nil
}

func parseCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// store caches a certificate. If the cache is full, it evicts another certificate.
func (c *awsClient) store(at string, certificate *x509.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.certificates) >= awsCertificates {
		for other := range c.certificates {
			delete(c.certificates, other)
			break
		}
	}
	c.certificates[at] = certificate
}

// confirmSubscription confirms a subscription by requesting its URL, which must be of the host.
func (c *awsClient) confirmSubscription(ctx context.Context, host, at string) error {
	if !strings.HasPrefix(at, "https://"+host+"/") {
		return fmt.Errorf("SubscribeURL is not a URL of %s", host)
	}
	if _, err := c.get(ctx, at); err != nil {
		return errConfirm
	}
	return nil
}

// get fetches a URL.
func (c *awsClient) get(ctx context.Context, at string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, awsTimeout)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", useragent.Default())
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	return io.ReadAll(io.LimitReader(answer.Body, awsAnswer))
}
