package against

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/childenv"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/breaking"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A RevisionError reports that a git revision or the repository does not exist.
type RevisionError struct {
	// Spec is the requested revision, and Reason is the message from git.
	Spec, Reason string
}

// Error returns Spec and Reason.
func (e *RevisionError) Error() string { return fmt.Sprintf("%s: %s", e.Spec, e.Reason) }

// ErrNoGit reports that the git command is not installed.
var ErrNoGit = errors.New("comparing with git:REF needs the program git, which is not in PATH; install it or compare with a directory")

// virtualRoot is the virtual path of the repository's root directory.
const virtualRoot = "/"

// loadGit loads the old version from a revision: REF or REF:PATH.
func loadGit(ctx context.Context, rest, spec string, new New) ([]breaking.Package, []source.Diagnostic, error) {
	ref, at, hasPath := strings.Cut(rest, ":")
	if ref == "" {
		return nil, nil, &RevisionError{spec, "no revision is named; write git:main or git:HEAD~1:events.yaml"}
	}
	g, err := openGit(ctx, ref, spec)
	if err != nil {
		return nil, nil, err
	}
	v := version{read: g.read, list: g.list, label: func(p string) string { return ref + ":" + strings.TrimPrefix(filepath.ToSlash(p), virtualRoot) }}
	here := path.Join(virtualRoot, g.prefix)
	if !hasPath {
		v.base, v.root = here, here
		if len(new.Files) == 0 {
			// The configuration may be outside the current directory.
			if v.root, err = g.repositoryPath(new.Config.Dir); err != nil {
				return nil, nil, err
			}
		}
	} else {
		place := path.Join(virtualRoot, at)
		if at == "." || strings.HasPrefix(at, "./") || strings.HasPrefix(at, "../") {
			place = path.Join(here, at)
		}
		if _, ok := g.blobs[place]; ok {
			packages, ds := v.packages([]group{new.singleGroup(place, rebase(new.Config.Refs, ".", here))})
			return packages, ds, nil
		}
		if !slices.ContainsFunc(g.names, func(n string) bool { return strings.HasPrefix(n, strings.TrimSuffix(place, "/")+"/") }) {
			return nil, []source.Diagnostic{missing(spec, "revision %s has no file or directory %s", ref, strings.TrimPrefix(place, virtualRoot))}, nil
		}
		v.base, v.root = place, place
	}
	packages, ds := v.load(spec, new)
	return packages, ds, nil
}

// A revision is the file tree of one commit.
type revision struct {
	ctx context.Context
	// prefix is the path of the current directory, relative to the root of the repository.
	prefix string
	// blobs maps the paths of all files to their objects. names lists the paths in sorted order.
	blobs map[string]blob
	names []string
}

type blob struct {
	id   string
	link bool
}

func openGit(ctx context.Context, ref, spec string) (*revision, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, ErrNoGit
	}
	g := &revision{ctx: ctx, blobs: map[string]blob{}}
	prefix, err := git(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, &RevisionError{spec, "the current directory is in no git repository"}
	}
	g.prefix = strings.TrimSuffix(string(prefix), "\n")
	tree, err := git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{tree}")
	if err != nil {
		return nil, &RevisionError{spec, fmt.Sprintf("git has no revision %q; a shallow clone, as CI makes them, has few (fetch it first)", ref)}
	}
	listing, err := git(ctx, "ls-tree", "-r", "-z", "--full-tree", strings.TrimSpace(string(tree)))
	if err != nil {
		return nil, fmt.Errorf("listing the files of %s: %w", ref, err)
	}
	for line := range strings.SplitSeq(string(listing), "\x00") {
		about, name, ok := strings.Cut(line, "\t")
		fields := strings.Fields(about) // mode, type, ID
		if !ok || len(fields) != 3 || fields[1] != "blob" {
			continue // submodules contain no files of this repository
		}
		name = path.Join(virtualRoot, name)
		g.blobs[name] = blob{id: fields[2], link: fields[0] == "120000"}
		g.names = append(g.names, name)
	}
	return g, nil
}

// git runs git without prompts and without write access.
func git(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(childenv.WithoutSecrets(cmd.Environ()), "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// maxLinks limits the length of a chain of symbolic links.
const maxLinks = 8

// read returns the content of a file. It follows symbolic links.
func (g *revision) read(name string) ([]byte, error) {
	name = filepath.ToSlash(filepath.Clean(name))
	at := name
	for range maxLinks {
		b, ok := g.blobs[at]
		if !ok {
			return nil, notFound(name)
		}
		content, err := git(g.ctx, "cat-file", "blob", b.id)
		if err != nil || !b.link {
			return content, err
		}
		at = path.Join(path.Dir(at), string(content))
	}
	return nil, notFound(name)
}

func (g *revision) list() []string { return g.names }

// repositoryPath returns the path of a working tree directory within the repository.
func (g *revision) repositoryPath(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return path.Join(virtualRoot, g.prefix, filepath.ToSlash(dir)), nil
	}
	root, err := git(g.ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(strings.TrimSuffix(string(root), "\n"), dir)
	if err != nil {
		return "", err
	}
	return path.Join(virtualRoot, filepath.ToSlash(rel)), nil
}
