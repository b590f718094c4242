package cli

import (
	"runtime/debug"
	"testing"
)

func TestVersionOfKnowsDevelopmentBuilds(t *testing.T) {
	replaced := &debug.Module{Path: "../checkout"}
	for _, c := range []struct {
		name  string
		info  *debug.BuildInfo
		text  string
		devel bool
	}{
		{"no build info", nil, "(devel)", true},
		{"empty", &debug.BuildInfo{Main: debug.Module{Path: Module}}, "(devel)", true},
		{"devel", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "(devel)"}}, "(devel)", true},
		{"release", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.1.0"}}, "v0.1.0", false},
		{"pre-release", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.2.0-rc.1"}}, "v0.2.0-rc.1", false},
		{"pseudo-version", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.0.0-20260102150405-abcdefabcdef"}}, "v0.0.0-20260102150405-abcdefabcdef", true},
		{"pseudo-version after a release", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.1.1-0.20260102150405-abcdefabcdef"}}, "v0.1.1-0.20260102150405-abcdefabcdef", true},
		{"pseudo-version after a pre-release", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.2.0-rc.1.0.20260102150405-abcdefabcdef"}}, "v0.2.0-rc.1.0.20260102150405-abcdefabcdef", true},
		{"dirty pseudo-version", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.1.1-0.20260102150405-abcdefabcdef+dirty"}}, "v0.1.1-0.20260102150405-abcdefabcdef+dirty", true},
		{"dirty release", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.1.0+dirty"}}, "v0.1.0+dirty", true},
		{"replaced", &debug.BuildInfo{Main: debug.Module{Path: Module, Version: "v0.1.0", Replace: replaced}}, "(devel)", true},
		{"linked into another program", &debug.BuildInfo{Main: debug.Module{Path: "example.com/other", Version: "v1.0.0"}}, "(devel)", true},
	} {
		if got := VersionOf(c.info); got.Text != c.text || got.Devel != c.devel {
			t.Errorf("%s: %q, devel %v; want %q, devel %v", c.name, got.Text, got.Devel, c.text, c.devel)
		}
	}
}
