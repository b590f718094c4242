package admin

import (
	"context"
	"log/slog"
	"net/http"
)

// Routes are the methods and paths that a handler of NewHandler serves.
func Routes(h http.Handler) []string { return h.(*handler).paths }

// Detail is what operators are told of an error.
func Detail(ctx context.Context, err error) string {
	h := &handler{log: slog.New(slog.DiscardHandler)}
	_, _, detail := h.classify(ctx, "it", err)
	return detail
}

// FormatDuration is what pages show of a duration.
var FormatDuration = formatDuration
