package events

// A Kind identifies an error of the extension, independent of its code. Servers use one of two families of error codes.
// Both map to the same kinds.
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

// String returns the name of the kind, such as "NotFound", or "" for an unknown kind. Error messages on the wire begin
// with this name.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return ""
	}
	return kindNames[k]
}
