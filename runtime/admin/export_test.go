package admin

import (
	"context"
	"log/slog"
	"net/http"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// Routes are the methods and paths that a handler of NewHandler serves.
func Routes(h http.Handler) []string { return h.(*handler).paths }

// Detail is what operators are told of an error.
func Detail(ctx context.Context, err error) string {
	h := &handler{log: slog.New(slog.DiscardHandler)}
	_, _, detail := h.classify(ctx, "it", err)
	return detail
}

// Draw is the HTML of an activity, and how many rows its table has.
func Draw(a *operator.Activity) (html string, rows int) {
	var b strings.Builder
	p := draw(a)
	if err := pages.ExecuteTemplate(&b, "activity", p); err != nil {
		return err.Error(), 0
	}
	return b.String(), len(p.Rows)
}
