package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A URLError is the error for a rejected callback URL (SUB-3). Its Reason only describes the URL and can be shown to
// the caller who sent it.
type URLError struct {
	Reason string
}

// Error returns the reason.
func (e *URLError) Error() string { return "netguard: url: " + e.Reason }

// A BlockedError is the error for a destination in a blocked address range (SSRF-1). Its text contains internal
// addresses, so it can be logged but must not be shown to subscribers.
type BlockedError struct {
	Host  string
	Addr  netip.Addr
	Range Range
}

// Error returns a message with the host, the address and the range.
func (e *BlockedError) Error() string {
	return "netguard: " + e.Host + " is " + e.Addr.String() + ", " + e.Range.Name + " (" + e.Range.Source + ")"
}

// A Stage is the stage at which a request failed.
type Stage string

// The stages, in order.
const (
	StageLookup   Stage = "lookup"
	StageConnect  Stage = "connect"
	StageTLS      Stage = "tls handshake"
	StageExchange Stage = "exchange"
)

// An Error is the error for a request that did not receive a usable response. Its text consists of fixed messages and
// operating system messages. It never contains data from the endpoint, such as a header, a body or the names in a
// certificate (ERR-1).
type Error struct {
	// Category is the category of the failure. Subscribers may see its [wire.Category.ForSubscriber].
	Category wire.Category
	// Stage is the stage at which the request failed.
	Stage Stage
	// cause is a context error, a syscall.Errno, a *BlockedError or an error of this package.
	cause error
}

// Error returns a message with the category, the stage and the cause.
func (e *Error) Error() string {
	s := "netguard: " + string(e.Category) + " at " + string(e.Stage)
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Unwrap returns the cause: a context error, a syscall.Errno, a [*BlockedError] or nil.
func (e *Error) Unwrap() error { return e.cause }

// CategoryOf returns the category of an error returned by [Guard.Fetch] or [Guard.Send] (ERR-1). It returns "" for nil
// and for a request that the caller canceled, because cancellation does not reflect the endpoint's health.
func CategoryOf(err error) wire.Category {
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Category
	}
	return wire.ConnectionRefused
}

// Causes with fixed messages, which replace errors that could contain data from the endpoint.
var (
	errNoAddress   = errors.New("the host has no address")
	errLookup      = errors.New("the lookup failed")
	errCertificate = errors.New("the certificate is not accepted")
	errWrongHost   = errors.New("the certificate is for another host")
	errAuthority   = errors.New("the certificate's authority is unknown")
	errExpired     = errors.New("the certificate is not valid now")
	errHandshake   = errors.New("the TLS handshake failed")
	errAnswer      = errors.New("the response is invalid")
	errClosed      = errors.New("the connection was closed early")
)

// A tunnelError is the error for a proxy that did not open a tunnel.
type tunnelError struct{ status int }

// Error returns the status and what to check.
func (e *tunnelError) Error() string {
	what := "look for the reason in its log"
	switch {
	case e.status == http.StatusProxyAuthRequired:
		what = "check the user and the password in Callbacks.Proxy"
	case e.status == http.StatusForbidden:
		what = "allow the endpoint's address and port there"
	case e.status >= 500:
		what = "it did not reach the endpoint"
	}
	return fmt.Sprintf("the proxy answered %d to CONNECT: %s", e.status, what)
}

// ProxyStatus returns the status with which the proxy refused the tunnel of a request, or 0 if it did not.
func ProxyStatus(err error) int {
	if refused, ok := errors.AsType[*tunnelError](err); ok {
		return refused.status
	}
	return 0
}

// classifyProxy is like [classify] for an error of the proxy: the category of the result is [wire.Proxy].
func classifyProxy(ctx context.Context, err error) error {
	err = classify(ctx, StageConnect, err)
	if e, ok := errors.AsType[*Error](err); ok {
		return &Error{wire.Proxy, e.Stage, e.cause}
	}
	return err
}

// classify converts an error that occurred at the given stage to an Error that does not contain the error's text. It
// returns an Error unchanged. If the caller canceled the request, it returns context.Canceled.
func classify(ctx context.Context, stage Stage, err error) error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Canceled
	}
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
		return &Error{wire.Timeout, stage, context.DeadlineExceeded}
	}
	switch stage {
	case StageTLS:
		return &Error{wire.TLSError, stage, tlsCause(err)}
	case StageLookup:
		return &Error{wire.ConnectionRefused, stage, lookupCause(err)}
	default:
		return &Error{wire.ConnectionRefused, stage, connectionCause(err)}
	}
}

func lookupCause(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		return errNoAddress
	}
	return errLookup
}

func connectionCause(err error) error {
	var (
		errno   syscall.Errno
		refused *tunnelError
	)
	switch {
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed),
		errors.Is(err, context.Canceled): // cancelled by another request
		return errClosed
	default:
		return errAnswer
	}
}

func tlsCause(err error) error {
	var (
		host      x509.HostnameError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		errno     syscall.Errno
	)
	switch {
	case errors.As(err, &host):
		return errWrongHost
	case errors.As(err, &authority):
		return errAuthority
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errExpired
	case errors.As(err, &verify):
		return errCertificate
	case errors.As(err, &errno):
		return errno
	default:
		return errHandshake
	}
}
