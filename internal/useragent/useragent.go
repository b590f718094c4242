// Package useragent provides the User-Agent for mcpe-gen's requests.
package useragent

import (
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/mcpe-gen/mcpe-gen"

// Default returns the User-Agent of this module, such as "mcpe-gen/0.1.0 (+https://github.com/mcpe-gen/mcpe-gen)". If
// the build does not have a module version, the version is omitted.
var Default = sync.OnceValue(func() string {
	product := "mcpe-gen"
	if info, ok := debug.ReadBuildInfo(); ok {
		if version, ok := strings.CutPrefix(versionOf(info), "v"); ok {
			product += "/" + version
		}
	}
	return product + " (+https://" + module + ")"
})

// versionOf returns the version of the module in a build. If the build does not have a version, it returns "" or
// "(devel)".
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

// Set sets the User-Agent in h unless it is already set.
func Set(h http.Header, agent string) {
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", agent)
	}
}
