package events

// A Kind identifies an error of the extension independently of its code. Servers use one of two families of codes;
// both map to the same kinds.
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

// String returns the kind's name, such as "NotFound", with which error messages on the wire begin. It is empty for
// an unknown kind.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return ""
	}
	return kindNames[k]
}
