package events

// A Kind names an error of the extension, whatever code a peer gives it: servers speak one of two
// families of codes, and the kind is the same in both.
type Kind int

// The kinds.
const (
	KindInvalidParams Kind = iota + 1
	KindNotFound
	KindForbidden
	KindResourceExhausted
	KindUnsupported
	KindCallbackEndpointError
	KindUpstreamError
	KindInternal
	KindMethodNotFound
)

var kindNames = [...]string{
	KindInvalidParams:         "InvalidParams",
	KindNotFound:              "NotFound",
	KindForbidden:             "Forbidden",
	KindResourceExhausted:     "ResourceExhausted",
	KindUnsupported:           "Unsupported",
	KindCallbackEndpointError: "CallbackEndpointError",
	KindUpstreamError:         "UpstreamError",
	KindInternal:              "InternalError",
	KindMethodNotFound:        "MethodNotFound",
}

// String returns the name with which an error's message begins on the wire, such as "NotFound"; it is empty for an
// unknown kind.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return ""
	}
	return kindNames[k]
}
