package transport

import "fmt"

// spareDescriptors is how many descriptors a process needs for other uses than requests: for listeners, logs and
// stores.
const spareDescriptors = 64

// fewDescriptors returns a warning if the process's descriptor limit is below the number of requests that one caller
// may have. Otherwise it returns "". A process without free descriptors cannot accept connections.
func fewDescriptors(limit uint64, maxOpen int) string {
	if maxOpen < 0 || limit >= uint64(maxOpen)+spareDescriptors {
		return ""
	}
	return fmt.Sprintf("mcp events: the process may have %d descriptors open (RLIMIT_NOFILE), and one caller %d requests (HandlerOptions.MaxOpen): "+
		"raise the limit, with ulimit -n or LimitNOFILE, or lower MaxOpen", limit, maxOpen)
}
