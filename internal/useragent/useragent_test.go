package useragent

import (
	"net/http"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionOf(t *testing.T) {
	for want, info := range map[string]*debug.BuildInfo{
		"v0.1.0": {Main: debug.Module{Path: "example.com/a"}, Deps: []*debug.Module{{Path: "example.com/b", Version: "v9.0.0"}, {Path: module, Version: "v0.1.0"}}},
		"v0.2.0": {Main: debug.Module{Path: module, Version: "v0.2.0"}},
		"":       {Main: debug.Module{Path: "example.com/a", Version: "v9.0.0"}},
	} {
		if got := versionOf(info); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Default(); !strings.HasPrefix(got, "mcpe-gen") || !strings.HasSuffix(got, " (+https://github.com/mcpe-gen/mcpe-gen)") {
		t.Errorf("%q", got)
	}
}

func TestSet(t *testing.T) {
	h := http.Header{}
	Set(h, "a")
	Set(h, "b")
	if got := h.Get("User-Agent"); got != "a" {
		t.Errorf("%q", got)
	}
}
