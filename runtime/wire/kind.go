package wire

import "strings"

// A Kind names an error of the extension independently of the dialect's code.
type Kind int

// The kinds.
const (
	InvalidParams Kind = iota + 1
	NotFound
	Forbidden
	ResourceExhausted
	Unsupported
	CallbackEndpointError
	UpstreamError
	Internal
	MethodNotFound
)

// A Dialect is the family of error codes a peer speaks (D2).
type Dialect int

const (
	// Sketch is the code family of the design sketch, -32011 to -32015.
	Sketch Dialect = iota
	// SEP is the provisional code family of SEP-3415, -32023 to -32027.
	SEP
)

type kindFacts struct {
	name  string
	codes [2]int64 // by Dialect
}

var kinds = map[Kind]kindFacts{
	InvalidParams:         {"InvalidParams", [2]int64{-32602, -32602}},
	NotFound:              {"NotFound", [2]int64{-32011, -32023}},
	Forbidden:             {"Forbidden", [2]int64{-32012, -32024}},
	ResourceExhausted:     {"ResourceExhausted", [2]int64{-32013, -32025}},
	Unsupported:           {"Unsupported", [2]int64{-32014, -32026}},
	CallbackEndpointError: {"CallbackEndpointError", [2]int64{-32015, -32027}},
	UpstreamError:         {"UpstreamError", [2]int64{-32603, -32603}},
	Internal:              {"InternalError", [2]int64{-32603, -32603}},
	MethodNotFound:        {"MethodNotFound", [2]int64{-32601, -32601}},
}

// String returns the name with which an error's message begins on the wire.
func (k Kind) String() string { return kinds[k].name }

// Code returns the JSON-RPC code of k in dialect d.
func (d Dialect) Code(k Kind) int64 { return kinds[k].codes[d] }

// KindOf returns the kind that code has in either dialect, and which dialect that is. Codes that
// both dialects share report Sketch. A code of neither is 0, false. UpstreamError and Internal
// share a code; KindOf reports UpstreamError when message is or begins with that name, behind which a
// colon and a reason may follow.
func KindOf(code int64, message string) (Kind, Dialect, bool) {
	for d := Sketch; d <= SEP; d++ {
		for k := InvalidParams; k <= MethodNotFound; k++ {
			if kinds[k].codes[d] != code {
				continue
			}
			if k == UpstreamError && message != kinds[k].name && !strings.HasPrefix(message, kinds[k].name+": ") {
				continue
			}
			return k, d, true
		}
	}
	return 0, 0, false
}
