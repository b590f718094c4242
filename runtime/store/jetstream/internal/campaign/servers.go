package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/freeport"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/internal/monitor"
)

const (
	// nodeCount is the number of nats-servers.
	nodeCount = 3
	// recoveryTimeout is the maximum time after a fault until every stream is current on every server.
	recoveryTimeout = 90 * time.Second
	// shutdownTimeout is the timeout for the graceful shutdown of a server.
	shutdownTimeout = 30 * time.Second
)

// A node is a nats-server process with its directory and ports.
type node struct {
	name, program, config, store string
	env                          []string
	client, monitor              string // addresses
	log                          *os.File

	cmd   *exec.Cmd
	alive io.Closer     // the server's standard input; closing it ends the server
	done  chan struct{} // closed when it has ended
}

// servers represents the cluster of nats-servers. Each route between two servers and each connection from a replica to
// a server uses a separate path.
type servers struct {
	nodes  [nodeCount]*node
	routes [nodeCount][nodeCount]*path         // from, to; nil to itself
	access [campaign.Replicas][nodeCount]*path // replica, server
}

// newServers starts three nats-servers and waits until they are healthy. It stores their logs and data in dir.
func newServers(ctx context.Context, program, dir string, env []string) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	addrs, release, err := freeport.Reserve(3 * nodeCount)
	if err != nil {
		return nil, err
	}
	release = sync.OnceFunc(release)
	defer release()
	for i := range nodeCount {
		for j := range nodeCount {
			if i != j {
				if s.routes[i][j], err = newPath(addrs[3*j+2]); err != nil {
					return nil, err
				}
			}
		}
		for r := range campaign.Replicas {
			if s.access[r][i], err = newPath(addrs[3*i]); err != nil {
				return nil, err
			}
		}
	}
	release() // the paths have their addresses by now
	for i := range nodeCount {
		n := &node{name: fmt.Sprintf("n%d", i), program: program, env: env, client: addrs[3*i], monitor: addrs[3*i+1]}
		n.config, n.store = filepath.Join(dir, n.name+".conf"), filepath.Join(dir, n.name)
		var routes []string
		for j := range nodeCount {
			if i != j {
				routes = append(routes, "nats://"+s.routes[i][j].addr())
			}
		}
		// The advertised address is unreachable, so that no route bypasses the paths.
		text := fmt.Sprintf(`server_name: %s
listen: %s
http: %s
max_payload: 1MB
logfile: %q
jetstream { store_dir: %q, max_file_store: 8GB, sync_interval: always }
cluster { name: campaign, listen: %s, advertise: "127.0.0.1:1", no_advertise: true, routes: [%s] }
`, n.name, n.client, n.monitor, filepath.Join(dir, n.name+".nats.log"), n.store, addrs[3*i+2], strings.Join(routes, ", "))
		if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		if n.log, err = os.Create(filepath.Join(dir, n.name+".log")); err != nil {
			return nil, err
		}
		s.nodes[i] = n
		if err := n.start(); err != nil {
			return nil, err
		}
	}
	if err := s.waitHealthy(ctx); err != nil {
		return nil, err
	}
	return s, s.waitPlaceable(ctx)
}

// waitPlaceable waits until the servers can place a stream on all of them. The meta leader learns the resources of its
// peers only after they are healthy.
func (s *servers) waitPlaceable(ctx context.Context) error {
	nc, err := nats.Connect("nats://" + s.nodes[0].client)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for end := time.Now().Add(recoveryTimeout); ; campaign.Sleep(ctx, 100*time.Millisecond) {
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "PLACED", Subjects: []string{"placed"}, Replicas: nodeCount})
		if err == nil {
			return js.DeleteStream(ctx, "PLACED")
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("placing a stream: %w", err)
		}
	}
}

// stop kills all servers and closes the paths.
func (s *servers) stop() (err error) {
	for _, n := range s.nodes {
		if n != nil {
			n.kill()
			err = errors.Join(err, n.log.Close())
		}
	}
	for _, row := range s.routes {
		for _, p := range row {
			if p != nil {
				p.close()
			}
		}
	}
	for _, row := range s.access {
		for _, p := range row {
			if p != nil {
				p.close()
			}
		}
	}
	return err
}

// replicaURLs returns the URLs that a replica connects to.
func (s *servers) replicaURLs(replica int) string {
	var all []string
	for _, p := range s.access[replica] {
		all = append(all, "nats://"+p.addr())
	}
	return strings.Join(all, ",")
}

// directURLs returns the URLs of all servers, bypassing the paths.
func (s *servers) directURLs() string {
	var all []string
	for _, n := range s.nodes {
		all = append(all, "nats://"+n.client)
	}
	return strings.Join(all, ",")
}

// setPartitioned separates one server from the others, or reconnects it.
func (s *servers) setPartitioned(one int, shut bool) {
	for other := range nodeCount {
		if other != one {
			s.routes[one][other].setBlocked(shut)
			s.routes[other][one].setBlocked(shut)
		}
	}
}

// setMuted blocks or unblocks all messages from one server to the others. The server still receives their messages.
func (s *servers) setMuted(one int, shut bool) {
	for other := range nodeCount {
		if other != one {
			s.routes[one][other].there.set(shut)
			s.routes[other][one].back.set(shut)
		}
	}
}

// waitHealthy waits until every server reports that all its streams are current.
func (s *servers) waitHealthy(ctx context.Context) error {
	for end := time.Now().Add(recoveryTimeout); ; campaign.Sleep(ctx, 100*time.Millisecond) {
		var err error
		for _, n := range s.nodes {
			err = errors.Join(err, n.checkHealth(ctx))
		}
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// metaLeader returns the index of the meta leader, or -1 if the leader is unknown.
func (s *servers) metaLeader(ctx context.Context) int {
	for _, n := range s.nodes {
		var v struct {
			Meta struct {
				Leader string `json:"leader"`
			} `json:"meta_cluster"`
		}
		if err := n.ask(ctx, "/jsz", &v); err == nil && v.Meta.Leader != "" {
			return s.index(v.Meta.Leader)
		}
	}
	return -1
}

func (s *servers) index(name string) int {
	for i, n := range s.nodes {
		if n.name == name {
			return i
		}
	}
	return -1
}

func (n *node) start() error {
	cmd := exec.Command(n.program, serverArg, n.config)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), n.env...), n.log, n.log
	alive, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	fmt.Fprintf(n.log, "--- %s starts at %s\n", n.name, time.Now().Format(time.RFC3339Nano))
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		err := cmd.Wait()
		fmt.Fprintf(n.log, "--- %s ended at %s: %v\n", n.name, time.Now().Format(time.RFC3339Nano), err)
		close(done)
	}()
	n.cmd, n.alive, n.done = cmd, alive, done
	return nil
}

// kill stops the server with SIGKILL.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended already
	<-n.done
	n.alive.Close()
	n.cmd = nil
}

// shutDown shuts the server down gracefully. The server first transfers its stream leaderships.
func (n *node) shutDown() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.done:
		n.alive.Close()
		n.cmd = nil
		return nil
	case <-time.After(shutdownTimeout):
		n.kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM", n.name, shutdownTimeout)
	}
}

// checkHealth returns an error if the server is not healthy.
func (n *node) checkHealth(ctx context.Context) error { return n.ask(ctx, "/healthz", nil) }

// ask queries the server's monitoring.
func (n *node) ask(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := monitor.Get(ctx, "http://"+n.monitor+path, answer); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	return nil
}
