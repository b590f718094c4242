package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen/config"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

const (
	// watchEvery is how often files are looked at.
	watchEvery = 300 * time.Millisecond
	// watchSettle is how long they must have stayed the same before a run: editors write in steps.
	watchSettle = 150 * time.Millisecond
)

// watch runs generate now and after each change of a file that it reads, until Ctrl-C. Mistakes in
// event files and the config are printed and waited out.
func (c *command) watch(ctx context.Context, files []string, f generateFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		w := c.discover(files)
		if err := c.watched(ctx, files, f); err != nil {
			return err
		}
		if !c.quiet && c.format != "json" {
			fmt.Fprintf(c.stderr, "watching %s; Ctrl-C ends\n", count(len(w.seen), "file", "files"))
		}
		if !w.changed(ctx) {
			return nil
		}
	}
}

// watched is one run. Only what no edit of a file can mend ends the watching.
func (c *command) watched(ctx context.Context, files []string, f generateFlags) error {
	err := c.generate(ctx, files, f)
	e := asExit(err)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case e.misused:
		return err
	case e.err != nil:
		fmt.Fprintf(c.stderr, "mcpe-gen: %v\n", e)
	}
	return nil
}

// A watching is what a run depends on, as it was before the run.
type watching struct {
	// config is the path of the config, empty when the run reads none; globbed tells that it names the
	// event files.
	config  string
	globbed bool
	// paths are the event files and those that they refer to, also in vain.
	paths []string
	seen  map[string]stamp
}

// discover finds the files that a run reads. It reads the event files; looking at them later does not.
func (c *command) discover(files []string) *watching {
	w := &watching{config: c.config, globbed: len(files) == 0}
	if w.globbed && w.config == "" {
		w.config = config.Name
		if found, ok := config.Find("."); ok {
			w.config = found
		}
	}
	w.paths = append(w.paths, files...)
	var reading schema.Options
	if w.config != "" {
		if cfg, _ := config.Load(w.config, nil); cfg != nil {
			reading = cfg.Reading() // what refs maps is read, too
		}
	}
	reading.ReadFile = func(p string) ([]byte, error) {
		w.paths = append(w.paths, p)
		return source.ReadFile(p)
	}
	schema.Load(append(w.members(), files...), reading)
	w.seen = w.look()
	return w
}

// members are the event files that the config names now. What is wrong with it is told by the run.
func (w *watching) members() []string {
	if !w.globbed {
		return nil
	}
	cfg, _ := config.Load(w.config, nil)
	if cfg == nil {
		return nil
	}
	var all []string
	for _, p := range cfg.Packages {
		members, _ := cfg.Files(p)
		all = append(all, members...)
	}
	return all
}

// look is the state of every file.
func (w *watching) look() map[string]stamp {
	now := map[string]stamp{}
	for _, p := range append(w.members(), w.paths...) {
		now[filepath.Clean(p)] = stampOf(p)
	}
	if w.config != "" {
		now[filepath.Clean(w.config)] = stampOf(w.config)
	}
	return now
}

// changed waits until the files differ from what was seen and have settled; false when ctx ended.
func (w *watching) changed(ctx context.Context) bool {
	last := w.seen
	wait := watchEvery
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		now := w.look()
		switch {
		case !maps.Equal(now, last):
			last, wait = now, watchSettle
		case !maps.Equal(now, w.seen):
			return true
		default:
			wait = watchEvery
		}
	}
}

// A stamp tells two states of a file apart. The zero stamp is that of a file that is not there.
type stamp struct{ size, modified int64 }

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime().UnixNano()}
}
