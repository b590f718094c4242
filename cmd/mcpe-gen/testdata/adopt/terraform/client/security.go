// Package client checks where requests come from.
package client

import (
	"net/http"
	"slices"

	log "github.com/sirupsen/logrus"
)

// NewSecurityHandler lets requests from the origins, and those without one, pass to next.
func NewSecurityHandler(next http.Handler, origins []string, logger *log.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" && !slices.Contains(origins, origin) {
			logger.Infof("refused %s", origin)
			http.Error(w, "the origin is not allowed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
