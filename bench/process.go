package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// A process is a server of this project or of the limit that runs as a separate process.
type process struct {
	kind string // its name in serve
	cmd  *exec.Cmd
	base string // http://127.0.0.1:PORT
}

// start runs this program as a server of the given kind and waits until it listens.
func start(ctx context.Context, kind string) (*process, error) { return startIn(ctx, kind, "") }

// startIn starts a server with a store at place, which is a directory or a connection string.
func startIn(ctx context.Context, kind, place string) (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, "serve", kind, place)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cmd.Process.Kill()
		return nil, errors.Join(fmt.Errorf("server %s did not start", kind), cmd.Wait())
	}
	return &process{kind, cmd, "http://" + strings.TrimSpace(line)}, nil
}

func (p *process) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// A memory is a server's memory usage after two garbage collections.
type memory struct {
	Heap       int64 `json:"heap"`
	Goroutines int   `json:"goroutines"`
}

func (p *process) memory() (memory, error) {
	var m memory
	resp, err := http.Get(p.base + "/admin/memory")
	if err != nil {
		return m, err
	}
	defer resp.Body.Close()
	return m, json.NewDecoder(resp.Body).Decode(&m)
}

// emit makes the server send n events to every stream.
func (p *process) emit(n int) error {
	resp, err := http.Get(fmt.Sprintf("%s/admin/emit?n=%d", p.base, n))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("emit: %s: %s", resp.Status, b)
	}
	return err
}

// reportMemory handles the requests of process.memory.
func reportMemory(w http.ResponseWriter, _ *http.Request) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	json.NewEncoder(w).Encode(memory{int64(m.HeapAlloc), runtime.NumGoroutine()})
}
