// Package useragent provides the User-Agent of mcpe-gen's requests.
package useragent

import (
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/mcpe-gen/mcpe-gen"

// Default returns the User-Agent of this module, such as "mcpe-gen/0.1.0 (+https://github.com/mcpe-gen/mcpe-gen)". A
// build without a module version omits the version.
var Default = sync.OnceValue(func() string {
	product := "mcpe-gen"
	if info, ok := debug.ReadBuildInfo(); ok {
		if version, ok := strings.CutPrefix(versionOf(info), "v"); ok {
			product += "/" + version
		}
	}
	return product + " (+https://" + module + ")"
})

// versionOf returns the version of the module in a build, "" or "(devel)" if it has none.
func versionOf(info *debug.BuildInfo) string {
	if info.Main.Path == module {
		return info.Main.Version
	}
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// Set sets the User-Agent if h has none.
func Set(h http.Header, agent string) {
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", agent)
	}
}
