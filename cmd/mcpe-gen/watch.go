package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/config"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

const (
	// watchEvery is the polling interval for the files.
	watchEvery = 300 * time.Millisecond
	// watchSettle is how long the files must remain unchanged before a run starts, because editors write in several
	// steps.
	watchSettle = 150 * time.Millisecond
)

// watch runs generate immediately and after each change to a file that it reads, until Ctrl-C. It prints errors in
// event files and the config, and then waits for the next change.
func (c *command) watch(ctx context.Context, files []string, f generateFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		w := c.discover(files, !f.noPlugins)
		if err := c.watchOnce(ctx, files, f); err != nil {
			return err
		}
		if !c.Quiet && c.Format != "json" {
			fmt.Fprintf(c.Stderr, "watching %s; Ctrl-C ends\n", count(len(w.seen), "file", "files"))
		}
		if !w.waitForChange(ctx) {
			return nil
		}
	}
}

// watchOnce performs one run. It returns only errors that no edit of a file can fix.
func (c *command) watchOnce(ctx context.Context, files []string, f generateFlags) error {
	err := c.generate(ctx, files, f)
	e := c.ExitOf(err)
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case e.Misused:
		return err
	case e.Err != nil:
		fmt.Fprintf(c.Stderr, "mcpe-gen: %v\n", e)
	}
	return nil
}

// A watchState records the state that a run's files had before the run.
type watchState struct {
	// config is the path of the config, or "" if the run does not read one. selectsFiles reports whether the config
	// selects the event files.
	config       string
	selectsFiles bool
	// plugins reports whether the run executes the plugins of the config.
	plugins bool
	// paths are the event files and the files that they refer to, including missing ones.
	paths []string
	seen  map[string]stamp
}

// discover finds the files that a run reads. Only discover reads the event files. Later, fileStates does not.
func (c *command) discover(files []string, plugins bool) *watchState {
	w := &watchState{config: c.config, selectsFiles: len(files) == 0, plugins: plugins && len(files) == 0}
	if w.selectsFiles && w.config == "" {
		w.config = config.Name
		if found, ok := config.Find("."); ok {
			w.config = found
		}
	}
	w.paths = append(w.paths, files...)
	var reading schema.Options
	if w.config != "" {
		if cfg, _ := config.Load(w.config, nil); cfg != nil {
			reading = cfg.Reading() // including the files that refs maps to
		}
	}
	reading.ReadFile = func(p string) ([]byte, error) {
		w.paths = append(w.paths, p)
		return source.ReadFile(p)
	}
	schema.Load(append(w.eventFiles(), files...), reading)
	w.seen = w.fileStates()
	return w
}

// loaded returns the current config. It returns nil if the run does not read one or if it is invalid, which the run
// reports.
func (w *watchState) loaded() *config.Config {
	if !w.selectsFiles {
		return nil
	}
	cfg, _ := config.Load(w.config, nil)
	return cfg
}

// eventFiles returns the files that the config currently selects.
func (w *watchState) eventFiles() []string {
	cfg := w.loaded()
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

// pluginFiles returns the files that currently make up the plugins, excluding files that a plugin writes.
func (w *watchState) pluginFiles() []string {
	cfg := w.loaded()
	if cfg == nil || !w.plugins {
		return nil
	}
	var all []string
	for _, p := range cfg.Plugins {
		for _, f := range (plugin.Program{Command: p.Command, Dir: cfg.Dir}).Files() {
			if rel, err := filepath.Rel(absolute(p.Out), absolute(f)); err != nil || !filepath.IsLocal(rel) {
				all = append(all, f)
			}
		}
	}
	return all
}

// fileStates returns the current state of every file.
func (w *watchState) fileStates() map[string]stamp {
	now := map[string]stamp{}
	for _, p := range slices.Concat(w.eventFiles(), w.pluginFiles(), w.paths) {
		now[filepath.Clean(p)] = stampOf(p)
	}
	if w.config != "" {
		now[filepath.Clean(w.config)] = stampOf(w.config)
	}
	return now
}

// waitForChange waits until the files differ from the last state and have settled. It returns false if ctx is done
// first.
func (w *watchState) waitForChange(ctx context.Context) bool {
	last := w.seen
	wait := watchEvery
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		now := w.fileStates()
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

// A stamp identifies the state of a file. The zero stamp represents a missing file.
type stamp struct{ size, modified int64 }

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.Size(), info.ModTime().UnixNano()}
}
