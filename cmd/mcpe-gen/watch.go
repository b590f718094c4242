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

	"github.com/mcpe-gen/mcpe-gen/gen/config"
	"github.com/mcpe-gen/mcpe-gen/gen/plugin"
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
		w := c.discover(files, !f.noPlugins)
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
	// plugins tells that the plugins of the config run.
	plugins bool
	// paths are the event files and those that they refer to, also in vain.
	paths []string
	seen  map[string]stamp
}

// discover finds the files that a run reads. It reads the event files; looking at them later does not.
func (c *command) discover(files []string, plugins bool) *watching {
	w := &watching{config: c.config, globbed: len(files) == 0, plugins: plugins && len(files) == 0}
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
	schema.Load(append(w.eventFiles(), files...), reading)
	w.seen = w.look()
	return w
}

// loaded is the config as it is now; nil where the run reads none, or it is wrong, which the run tells.
func (w *watching) loaded() *config.Config {
	if !w.globbed {
		return nil
	}
	cfg, _ := config.Load(w.config, nil)
	return cfg
}

// eventFiles are those that the config names now.
func (w *watching) eventFiles() []string {
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

// pluginFiles are the files that the plugins are made of now. What a plugin writes is none of them.
func (w *watching) pluginFiles() []string {
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

// look is the state of every file.
func (w *watching) look() map[string]stamp {
	now := map[string]stamp{}
	for _, p := range slices.Concat(w.eventFiles(), w.pluginFiles(), w.paths) {
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
