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

	"github.com/mcpe-gen/mcpe-gen/internal/freeport"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream/internal/monitor"
)

const (
	// nodes is how many nats-servers there are.
	nodes = 3
	// healthTime is how long after a fault they may take until every stream is current on each again.
	healthTime = 90 * time.Second
	// endTime bounds the orderly end of one.
	endTime = 30 * time.Second
)

// A node is one nats-server: a process with a directory and ports of its own.
type node struct {
	name, program, config, store string
	env                          []string
	client, monitor              string // addresses
	log                          *os.File

	cmd   *exec.Cmd
	alive io.Closer     // its standard input, which ends it
	done  chan struct{} // closed when it has ended
}

// servers are the cluster. The routes between two of them lead through paths of their own, and so do the connections of
// each replica to each of them.
type servers struct {
	nodes  [nodes]*node
	routes [nodes][nodes]*path             // from, to; nil to itself
	access [campaign.Replicas][nodes]*path // replica, server
}

// newServers starts three nats-servers, whose logs and data are in dir.
func newServers(ctx context.Context, program, dir string, env []string) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	addrs, release, err := freeport.Reserve(3 * nodes)
	if err != nil {
		return nil, err
	}
	release = sync.OnceFunc(release)
	defer release()
	for i := range nodes {
		for j := range nodes {
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
	release() // the paths have addresses of their own by now
	for i := range nodes {
		n := &node{name: fmt.Sprintf("n%d", i), program: program, env: env, client: addrs[3*i], monitor: addrs[3*i+1]}
		n.config, n.store = filepath.Join(dir, n.name+".conf"), filepath.Join(dir, n.name)
		var routes []string
		for j := range nodes {
			if i != j {
				routes = append(routes, "nats://"+s.routes[i][j].addr())
			}
		}
		// What is advertised leads nowhere: no route goes past the paths.
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
	return s, s.healthy(ctx)
}

// stop kills all of them.
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

// url is what a replica connects to.
func (s *servers) url(replica int) string {
	var all []string
	for _, p := range s.access[replica] {
		all = append(all, "nats://"+p.addr())
	}
	return strings.Join(all, ",")
}

// direct is what leads to all servers without a path.
func (s *servers) direct() string {
	var all []string
	for _, n := range s.nodes {
		all = append(all, "nats://"+n.client)
	}
	return strings.Join(all, ",")
}

// part takes one server from the others, or lets it be with them again.
func (s *servers) part(one int, shut bool) {
	for other := range nodes {
		if other != one {
			s.routes[one][other].hold(shut)
			s.routes[other][one].hold(shut)
		}
	}
}

// mute lets nothing that one server says reach the others, which it hears; or ends that.
func (s *servers) mute(one int, shut bool) {
	for other := range nodes {
		if other != one {
			s.routes[one][other].there.set(shut)
			s.routes[other][one].back.set(shut)
		}
	}
}

// healthy waits until every server says that all of its streams are current.
func (s *servers) healthy(ctx context.Context) error {
	for end := time.Now().Add(healthTime); ; campaign.Sleep(ctx, 100*time.Millisecond) {
		var err error
		for _, n := range s.nodes {
			err = errors.Join(err, n.healthy(ctx))
		}
		if err == nil || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// leader is the index of the meta leader, -1 when nobody says who it is.
func (s *servers) leader(ctx context.Context) int {
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
	cmd := exec.Command(n.program, asServer, n.config)
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

// kill ends it as kill -9 does.
func (n *node) kill() {
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill() // it may have ended
	<-n.done
	n.alive.Close()
	n.cmd = nil
}

// end ends it in order: it takes its leaderships away first.
func (n *node) end() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.done:
		n.alive.Close()
		n.cmd = nil
		return nil
	case <-time.After(endTime):
		n.kill()
		return fmt.Errorf("%s did not end within %v of SIGTERM", n.name, endTime)
	}
}

// healthy returns what keeps a server from being well.
func (n *node) healthy(ctx context.Context) error { return n.ask(ctx, "/healthz", nil) }

// ask asks its monitoring.
func (n *node) ask(ctx context.Context, path string, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := monitor.Get(ctx, "http://"+n.monitor+path, answer); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	return nil
}
