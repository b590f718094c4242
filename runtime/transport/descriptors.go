package transport

import "fmt"

// spareDescriptors is the number of file descriptors that a process needs for listeners, logs and stores.
const spareDescriptors = 64

// descriptorWarning returns a warning if the file descriptor limit is too low for one caller's open requests. Otherwise
// it returns "". A process without free descriptors cannot accept connections.
func descriptorWarning(limit uint64, maxOpen int) string {
	if maxOpen < 0 || limit >= uint64(maxOpen)+spareDescriptors {
		return ""
	}
	return fmt.Sprintf("mcp events: the process may have %d descriptors open (RLIMIT_NOFILE), and one caller %d requests (HandlerOptions.MaxOpen): "+
		"raise the limit, with ulimit -n or LimitNOFILE, or lower MaxOpen", limit, maxOpen)
}
