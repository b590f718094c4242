package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// The files for Docker fit each other and the program: services that are named exist, and so do files; nginx
// knows every replica by the port that the image listens on; the program takes the image's arguments.
func TestComposeFits(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var compose struct {
		Services map[string]struct {
			Image string
			Build struct{ Context, Dockerfile string }
			Env   map[string]string `yaml:"environment"`
			After yaml.Node         `yaml:"depends_on"`
			Mount []string          `yaml:"volumes"`
			Ports []string
		}
		Volumes map[string]any
	}
	if err := yaml.Unmarshal([]byte(read("compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	docker := read("Dockerfile")
	entry := regexp.MustCompile(`ENTRYPOINT \["/tickets", "-http", "(:\d+)"\]`).FindStringSubmatch(docker)
	if entry == nil || !strings.Contains(docker, "EXPOSE "+entry[1][1:]+"\n") {
		t.Fatal("the image does not expose what it listens on")
	}
	o, err := parse([]string{"-http", entry[1], "-database", "postgres://db/desk"}, io.Discard)
	if err != nil || o.http != entry[1] {
		t.Fatalf("the program does not take the image's arguments: %v", err)
	}
	var upstreams []string
	for name, s := range compose.Services {
		if (s.Image == "") == (s.Build.Dockerfile == "") {
			t.Errorf("%s has an image or is built", name)
		}
		if s.Build.Dockerfile != "" {
			upstreams = append(upstreams, "server "+name+entry[1]+";")
			if _, err := os.Stat(filepath.Join(s.Build.Context, filepath.FromSlash(s.Build.Dockerfile))); err != nil {
				t.Error(err)
			}
			if !strings.Contains(s.Env["DATABASE_URL"], "@db:5432/"+compose.Services["db"].Env["POSTGRES_DB"]+"?") {
				t.Errorf("%s looks for its database at %s", name, s.Env["DATABASE_URL"])
			}
		}
		var after []string
		var conditions map[string]any
		if s.After.Decode(&after) != nil && s.After.Decode(&conditions) != nil {
			t.Errorf("%s depends on something else than services", name)
		}
		for service := range conditions {
			after = append(after, service)
		}
		for _, service := range after {
			if _, ok := compose.Services[service]; !ok {
				t.Errorf("%s depends on %s, which is no service", name, service)
			}
		}
		for _, m := range s.Mount {
			from, _, _ := strings.Cut(m, ":")
			_, volume := compose.Volumes[from]
			if _, err := os.Stat(from); err != nil && !volume {
				t.Errorf("%s mounts %s, which is neither a volume nor a file", name, from)
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s publishes %s beyond this machine, without authentication", name, p)
			}
		}
	}
	found := regexp.MustCompile(`server \S+:\d+;`).FindAllString(read("nginx.conf"), -1)
	slices.Sort(found)
	slices.Sort(upstreams)
	if !slices.Equal(found, upstreams) || len(found) < 2 {
		t.Errorf("nginx knows %q, the replicas are %q", found, upstreams)
	}
}
