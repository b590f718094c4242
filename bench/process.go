package main

import (
	"bufio"
	"encoding/json"
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
	kind string // its name in kinds
	cmd  *exec.Cmd
	base string // http://127.0.0.1:PORT
}

// start runs this program as a server of the given kind and waits until it listens. place consists of the arguments of
// the kind, separated by spaces. The process is stopped at the end of the part.
func (b *bench) start(kind string, place ...any) *process {
	exe, err := os.Executable()
	b.check(err)
	cmd := exec.CommandContext(b, exe, "serve", kind, strings.TrimSpace(fmt.Sprintln(place...)))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	b.check(err)
	b.check(cmd.Start())
	p := &process{kind: kind, cmd: cmd}
	b.ends = append(b.ends, p.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.stop()
		b.check(fmt.Errorf("server %s did not start: its error is above", kind))
	}
	p.base = "http://" + strings.TrimSpace(line)
	return p
}

func (p *process) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// ask sends a GET request to a server and decodes the response into v.
func (p *process) ask(path string, v any) error {
	resp, err := http.Get(p.base + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s: %s: %s", p.kind, path, resp.Status, body)
	}
	return json.Unmarshal(body, v)
}

// tell sends a GET request to a server and ignores the result. It ends the benchmark if the request fails.
func (b *bench) tell(p *process, path string) { b.check(p.ask(path, new(any))) }

// onGet handles GET requests for a path. It answers with the result of f as JSON.
func onGet(mux *http.ServeMux, path string, f func(r *http.Request) (any, error)) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		result, err := f(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		json.NewEncoder(w).Encode(result)
	})
}

// heap returns the bytes on the heap of a server after two garbage collections.
func (b *bench) heap(p *process) (n float64) {
	b.check(p.ask("/admin/heap", &n))
	return n
}

// heapSize handles the requests of bench.heap.
func heapSize(*http.Request) (any, error) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc, nil
}

// emit makes a server emit n events.
func (b *bench) emit(p *process, n int) { b.tell(p, fmt.Sprint("/admin/emit?n=", n)) }
