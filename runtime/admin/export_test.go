package admin

import (
	"context"
	"errors"
	"io"
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

// RenderPages executes the templates of all pages with data that fill has set.
func RenderPages(fill func(view any)) error {
	files, err := pageFiles.ReadDir("page")
	for _, f := range files {
		if pages.Lookup(f.Name()) == nil || f.Name() == "frame.html" {
			continue
		}
		var v view
		fill(&v)
		err = errors.Join(err, pages.ExecuteTemplate(io.Discard, f.Name(), v))
	}
	return err
}
