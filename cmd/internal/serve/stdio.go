package serve

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// serveStdio serves one client on standard input and output.
func (t *trial) serveStdio(ctx context.Context, begin func()) error {
	t.printMessage("%s on standard input and output, for testing only, never for production", t.summary())
	begin()
	// This unblocks the reader.
	defer t.o.Stdin.Close()
	lines := &mcp.IOTransport{Reader: t.injectLineFaults(ctx, t.o.Stdin), Writer: t.o.Stdout}
	return transport.Run(ctx, t.es, lines)
}
