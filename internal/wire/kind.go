package wire

import (
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Kind identifies an error of the extension independently of the dialect's code. Its exported form is
// [events.Kind], which declares the names.
type Kind = events.Kind

// The kinds.
const (
	InvalidParams         = events.KindInvalidParams
	NotFound              = events.KindNotFound
	Forbidden             = events.KindForbidden
	ResourceExhausted     = events.KindResourceExhausted
	Unsupported           = events.KindUnsupported
	CallbackEndpointError = events.KindCallbackEndpointError
	UpstreamError         = events.KindUpstreamError
	Internal              = events.KindInternal
	MethodNotFound        = events.KindMethodNotFound
)

// A Dialect is the family of error codes that a peer uses (D2).
type Dialect int

const (
	// Sketch is the code family of the design sketch, -32011 to -32015.
	Sketch Dialect = iota
	// SEP is the provisional code family of SEP-3415, -32023 to -32027.
	SEP
)

// codes holds the code of each kind, by dialect.
var codes = map[Kind][2]int64{
	InvalidParams:         {-32602, -32602},
	NotFound:              {-32011, -32023},
	Forbidden:             {-32012, -32024},
	ResourceExhausted:     {-32013, -32025},
	Unsupported:           {-32014, -32026},
	CallbackEndpointError: {-32015, -32027},
	UpstreamError:         {-32603, -32603},
	Internal:              {-32603, -32603},
	MethodNotFound:        {-32601, -32601},
}

// Code returns the JSON-RPC code of k in dialect d.
func (d Dialect) Code(k Kind) int64 { return codes[k][d] }

// KindOf returns the kind and the dialect of a code. For a code that both dialects share, the dialect is Sketch. It
// returns 0, false for an unknown code. UpstreamError and Internal share a code. KindOf returns UpstreamError if the
// message is "UpstreamError" or starts with "UpstreamError:".
func KindOf(code int64, message string) (Kind, Dialect, bool) {
	for d := Sketch; d <= SEP; d++ {
		for k := InvalidParams; k <= MethodNotFound; k++ {
			if codes[k][d] != code {
				continue
			}
			if k == UpstreamError && message != k.String() && !strings.HasPrefix(message, k.String()+": ") {
				continue
			}
			return k, d, true
		}
	}
	return 0, 0, false
}

// ReasonShuttingDown is the reason in the data of the [Internal] error of a server after shutdown (SRV-6). A caller
// should retry the call on another server.
const ReasonShuttingDown = "shutting_down"
