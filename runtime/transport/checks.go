package transport

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// passesSDKChecks reports whether a request passes the checks that the SDK makes before it reads the body.
func passesSDKChecks(r *http.Request, opts *mcp.StreamableHTTPOptions) bool {
	if !opts.DisableLocalhostProtection {
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && !isLoopback(r.Host) && isLoopback(addr.String()) {
			return false
		}
	}
	//lint:ignore SA1019 honoured here for as long as the SDK honours it
	if opts.CrossOriginProtection != nil && opts.CrossOriginProtection.Check(r) != nil {
		return false
	}
	return mediaType(r.Header.Get("Content-Type")) == contentTypeJSON &&
		acceptsJSONAndSSE(r.Header["Accept"])
}

// mediaType returns a media type without its parameters, or "" if the value is malformed.
func mediaType(value string) string {
	if value == contentTypeJSON || value == sse.ContentType {
		return value
	}
	t, _, err := mime.ParseMediaType(value)
	if err != nil {
		return ""
	}
	return t
}

// acceptsJSONAndSSE reports whether the Accept headers allow both JSON and SSE responses, as the SDK requires.
func acceptsJSONAndSSE(values []string) bool {
	var asJSON, asEvents bool
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			base, _, _ := strings.Cut(part, ";")
			switch strings.ToLower(strings.TrimSpace(base)) {
			case contentTypeJSON, "application/*":
				asJSON = true
			case sse.ContentType, "text/*":
				asEvents = true
			case "*/*":
				asJSON, asEvents = true, true
			}
		}
	}
	return asJSON && asEvents
}

// isLoopback reports whether an address or Host header refers to localhost or a loopback address.
func isLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = strings.Trim(addr, "[]")
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
