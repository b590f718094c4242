package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v4"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

// The environment of nats.conf.
var passwords = map[string]string{"ROUTE_PASSWORD": "route1", "PREPARE_PASSWORD": "prepare1", "SERVE_PASSWORD": "serve1", "OPERATOR_PASSWORD": "operator1", "ADMIN_PASSWORD": "admin1"}

// configured reads nats.conf for a server in this process, with another directory and other ports.
func configured(t *testing.T, name string, routes ...string) *server.Options {
	t.Helper()
	for k, v := range passwords {
		t.Setenv(k, v)
	}
	t.Setenv("NATS_NAME", name)
	t.Setenv("NATS_ROUTES", "["+strings.Join(routes, ", ")+"]")
	o, err := server.ProcessConfigFile("nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	if !o.SyncAlways {
		t.Error("nats.conf lacks sync_interval: always")
	}
	o.Host, o.Port, o.HTTPHost, o.HTTPPort, o.StoreDir, o.NoLog, o.NoSigs, o.ConfigFile = "127.0.0.1", -1, "127.0.0.1", -1, t.TempDir(), true, true, ""
	return o
}

func start(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	return s
}

func as(s *server.Server, user string) string {
	return "nats://" + user + ":" + passwords[strings.ToUpper(user)+"_PASSWORD"] + "@" + strings.TrimPrefix(s.ClientURL(), "nats://")
}

// cluster starts three servers with nats.conf. It returns the URLs of all of them per user, and those of their
// monitoring.
func cluster(t *testing.T) (urls func(user string) string, monitors []string) {
	t.Helper()
	addrs, release, err := freeport.Reserve(3)
	if err != nil {
		t.Fatal(err)
	}
	release()
	var routes []string
	for _, addr := range addrs {
		routes = append(routes, fmt.Sprintf("nats://route:%s@%s", passwords["ROUTE_PASSWORD"], addr))
	}
	var servers []*server.Server
	for i, addr := range addrs {
		o := configured(t, fmt.Sprint("nats", i+1), routes...)
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			t.Fatal(err)
		}
		o.Cluster.Host = host
		fmt.Sscan(port, &o.Cluster.Port)
		s := start(t, o)
		servers, monitors = append(servers, s), append(monitors, "http://"+s.MonitorAddr().String())
	}
	return func(user string) string {
		var all []string
		for _, s := range servers {
			all = append(all, as(s, user))
		}
		return strings.Join(all, ",")
	}, monitors
}

// built builds mcpe-jetstream and returns a function that runs it.
func built(t *testing.T) func(args ...string) (out string, err error) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mcpe-jetstream")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/mcpe-jetstream").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func(args ...string) (string, error) {
		out, err := exec.Command(program, args...).CombinedOutput()
		return string(out), err
	}
}

// prepared runs mcpe-jetstream prepare until the servers are a cluster.
func prepared(t *testing.T, command func(args ...string) (string, error), url string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		out, err := command("prepare", "-event", "ticket.created", url)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

// nats.conf, mcpe-jetstream and the program work together: three servers with that file form a cluster, prepare
// creates the streams as its user, the program serves as a user that may create none, and doctor finds no failure.
func TestDeployment(t *testing.T) {
	of, monitored := cluster(t)
	var monitors []string
	for _, at := range monitored {
		monitors = append(monitors, "-monitor", at)
	}
	command := built(t)
	prepared(t, command, of("prepare"))
	base, stop, err := served(t, options{nats: of("serve"), monitors: strings.Join(monitored, ",")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{http.StatusCreated, http.StatusCreated, http.StatusBadRequest} {
		if status, why := opens(t, base, "1", []string{"high", "high", "low"}[i]); status != want {
			t.Errorf("PUT %d: %d %s", i, status, why)
		}
	}
	resp, err := http.Get(base + "/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("healthz: %v %v", resp, err)
	} else {
		resp.Body.Close()
	}
	out, err := command(append(append([]string{"doctor"}, monitors...), of("serve"))...)
	if err != nil || !strings.Contains(out, " 0 failures") || !strings.Contains(out, "1 live servers") {
		t.Errorf("%v: %s", err, out)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// served runs the program until stop is called, and returns its address, or an error if it ends before.
func served(t *testing.T, o options) (base string, stop func() error, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	r, w := io.Pipe()
	o.http = "127.0.0.1:0"
	go func() {
		err := run(ctx, o, w)
		w.Close()
		ended <- err
	}()
	for lines := bufio.NewScanner(r); base == "" && lines.Scan(); {
		var listens bool
		if base, listens = strings.CutPrefix(lines.Text(), "example: listening on "); !listens {
			if t.Log(base); strings.Contains(base, "power failure") && o.monitors != "" { // JS-43: the servers' monitoring was queried
				t.Error("it warns of the servers that nats.conf makes")
			}
			base = ""
		}
	}
	go io.Copy(io.Discard, r)
	stop = func() error { cancel(); return <-ended }
	if base == "" {
		return "", nil, stop()
	}
	return base, stop, nil
}

// opens opens a ticket, or returns why that failed.
func opens(t *testing.T, base, id, severity string) (status int, why string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPut, base+"/tickets/"+id, strings.NewReader(
		fmt.Sprintf(`{"title": "The printer is on fire", "severity": %q, "openedAt": "2026-11-25T12:00:00Z"}`, severity)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Every right of the user serve in nats.conf is necessary: without it a request of a server is denied, and the error
// names the right. With all of them, none is denied.
func TestRights(t *testing.T) {
	single := func() *server.Options {
		o := configured(t, "alone")
		o.Cluster, o.Routes = server.ClusterOpts{}, nil
		return o
	}
	first := single()
	s := start(t, first)
	prepare(t, as(s, "prepare"))
	if err := serve(t, as(s, "serve")); err != nil {
		t.Fatalf("with all rights: %v", err)
	}
	var serving *server.User
	for _, u := range first.Users {
		if u.Username == "serve" {
			serving = u
		}
	}
	if serving == nil || len(serving.Permissions.Publish.Allow) < 5 {
		t.Fatalf("%+v", first.Users)
	}
	for _, right := range serving.Permissions.Publish.Allow {
		t.Run(right, func(t *testing.T) {
			o := single()
			for _, u := range o.Users {
				if u.Username == "serve" {
					u.Permissions.Publish.Allow = slices.DeleteFunc(slices.Clone(u.Permissions.Publish.Allow), func(s string) bool { return s == right })
				}
			}
			s := start(t, o)
			prepare(t, as(s, "prepare"))
			err := serve(t, as(s, "serve"))
			if !errors.Is(err, jetstream.ErrRights) || !strings.Contains(err.Error(), strings.TrimRight(right, ">*")) {
				t.Errorf("without the right to publish to %s: %v", right, err)
			}
		})
	}
}

func prepare(t *testing.T, url string) {
	t.Helper()
	s, err := jetstream.Open(t.Context(), url, jetstream.Options{Single: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.OpenLog(t.Context(), "ticket.created", limits); err != nil {
		t.Fatal(err)
	}
}

var limits = store.LogOptions{MaxAge: time.Hour, MaxCount: 10_000}

// serve makes every request of a server once, and returns what is denied.
func serve(t *testing.T, url string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := jetstream.Open(ctx, url, jetstream.Options{Single: true, Logger: quiet})
	if err != nil {
		return err
	}
	defer s.Close()
	log, err := s.OpenLog(ctx, "ticket.created", limits)
	if err != nil {
		return err
	}
	e := store.Entry{EventID: "1", Timestamp: events.NewTime(time.Now()), Data: []byte(`{}`)}
	for range 2 {
		if _, _, err := log.AppendOnce(ctx, e, 0); err != nil {
			return err
		}
	}
	lease, err := s.Join(ctx, "one", time.Minute, map[string]string{"ticket.created": "x"}, nil)
	if err != nil {
		return err
	}
	if _, err := s.Establish(ctx, "ticket.created", 1); err != nil {
		return err
	}
	hold := engine.ShardFence{Shard: engine.Shard{Topic: "ticket.created"}}
	if _, err := s.Claim(ctx, lease.Fence, []engine.ShardFence{hold}); err != nil {
		return err
	}
	sub := store.Subscription{ID: "sub_1", Event: "ticket.created", Principal: "alice", URL: "https://example.com", Generation: 1,
		ExpiresAt: time.Now().Add(time.Hour)}
	if _, err := s.Admit(ctx, sub, engine.Quota{Own: 5}); err != nil {
		return err
	}
	if _, _, err := s.CountSubscriptions(ctx, "alice"); err != nil {
		return err
	}
	at := []operator.Attempt{{EventID: "1", Event: sub.Event, Position: 1, Number: 1, At: time.Now()}}
	if err := s.SaveAttempts(ctx, []store.Update{{ID: sub.ID, Generation: 1}}, [][]operator.Attempt{at}); err != nil {
		return err
	}
	bounds := engine.AttemptBounds{PerSubscription: 10, MaxAge: time.Minute, Total: 10}
	if _, err := s.TrimAttempts(ctx, bounds, time.Now().Add(time.Hour), 100); err != nil {
		return err
	}
	if err := s.DeleteSubscription(ctx, sub.ID, 1); err != nil {
		return err
	}
	return s.Leave(ctx, lease.Fence)
}

var quiet = slog.New(slog.DiscardHandler)

// The files for Docker are consistent with each other and the program: services and files exist; nginx knows every
// replica by the port of the image; the programs accept the arguments of image and compose.yaml; and each server gets
// the environment that nats.conf needs.
func TestComposeFits(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	type service struct {
		Image   string
		Build   struct{ Context, Dockerfile string }
		Command []string
		Entry   []string          `yaml:"entrypoint"`
		Env     map[string]string `yaml:"environment"`
		After   yaml.Node         `yaml:"depends_on"`
		Mount   []string          `yaml:"volumes"`
		Ports   []string
		Signal  string `yaml:"stop_signal"`
	}
	var compose struct {
		Services map[string]service
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(read("compose.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	docker, conf := read("Dockerfile"), read("nats.conf")
	monitoring := regexp.MustCompile(`(?m)^http: [0-9.]+(:\d+)$`).FindStringSubmatch(conf)
	if monitoring == nil {
		t.Fatal("nats.conf has no monitoring")
	}
	entry := regexp.MustCompile(`ENTRYPOINT \["/tickets", "-http", "(:\d+)"\]`).FindStringSubmatch(docker)
	if entry == nil || !strings.Contains(docker, "EXPOSE "+entry[1][1:]+"\n") {
		t.Fatal("the image does not expose what it listens on")
	}
	if o, err := parse([]string{"-http", entry[1], "-nats", "nats://nats1"}, io.Discard); err != nil || o.http != entry[1] {
		t.Fatalf("the program does not take the image's arguments: %v", err)
	}
	users := map[string]bool{}
	for _, m := range regexp.MustCompile(`\{ user: (\w+), password: \$(\w+)`).FindAllStringSubmatch(conf, -1) {
		users[strings.ToLower(strings.TrimSuffix(m[2], "_PASSWORD"))] = true
	}
	var upstreams, nats []string
	for name, s := range compose.Services {
		if strings.HasPrefix(s.Image, "nats:2.15") {
			nats = append(nats, name)
			for _, v := range regexp.MustCompile(`\$([A-Z_]+)`).FindAllStringSubmatch(conf, -1) {
				if v[1] != "JS" && s.Env[v[1]] == "" {
					t.Errorf("%s has no %s, which nats.conf takes", name, v[1])
				}
			}
			if s.Env["NATS_NAME"] != name || s.Signal != "SIGUSR2" || !slices.Contains(s.Mount, name+":/data") ||
				!slices.Contains(s.Mount, "./nats.conf:"+s.Command[1]+":ro") {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if (s.Image == "") == (s.Build.Dockerfile == "") {
			t.Errorf("%s has an image or is built", name)
		}
		if s.Build.Dockerfile != "" {
			if len(s.Entry) == 0 {
				upstreams = append(upstreams, "server "+name+entry[1]+";")
				var ask []string
				for _, n := range []string{"nats1", "nats2", "nats3"} {
					ask = append(ask, "http://"+n+monitoring[1])
				}
				if got := s.Env["NATS_MONITORS"]; got != strings.Join(ask, ",") {
					t.Errorf("%s asks %q whether disks have what servers acknowledge", name, got)
				}
			} else if s.Entry[0] != "/mcpe-jetstream" || !strings.Contains(docker, "COPY --from=build /tickets /mcpe-jetstream /\n") {
				t.Errorf("%s begins with %q", name, s.Entry)
			}
			if _, err := os.Stat(filepath.Join(s.Build.Context, filepath.FromSlash(s.Build.Dockerfile))); err != nil {
				t.Error(err)
			}
			for _, at := range strings.Split(s.Env["NATS_URL"], ",") {
				m := regexp.MustCompile(`^nats://(\w+):\$\{([A-Z]+)_PASSWORD.*\}@(\w+):4222$`).FindStringSubmatch(at)
				if m == nil || strings.ToLower(m[2]) != m[1] || !users[m[1]] || compose.Services[m[3]].Env["NATS_NAME"] != m[3] {
					t.Errorf("%s looks for its store at %s", name, at)
				}
			}
		}
		var after []string
		var conditions map[string]any
		if s.After.Decode(&after) != nil && s.After.Decode(&conditions) != nil {
			t.Errorf("%s depends on something else than services", name)
		}
		for other := range conditions {
			after = append(after, other)
		}
		for _, other := range after {
			if _, ok := compose.Services[other]; !ok {
				t.Errorf("%s depends on %s, which is no service", name, other)
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
	if slices.Sort(nats); !slices.Equal(nats, []string{"nats1", "nats2", "nats3"}) {
		t.Errorf("the nats-servers are %q", nats)
	}
	found := regexp.MustCompile(`server \S+:\d+;`).FindAllString(read("nginx.conf"), -1)
	slices.Sort(found)
	slices.Sort(upstreams)
	if !slices.Equal(found, upstreams) || len(found) < 2 {
		t.Errorf("nginx knows %q, the replicas are %q", found, upstreams)
	}
}
