package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/github"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/github/githubserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// register registers the event types and returns their emitters by X-GitHub-Event.
func register(es *server.Server) (map[string]emitFunc, error) {
	pullRequest, err := githubserver.RegisterPullRequestOpened(es, githubserver.PullRequestOpenedHooks{})
	if err != nil {
		return nil, err
	}
	issue, err := githubserver.RegisterIssuesOpened(es, githubserver.IssuesOpenedHooks{})
	if err != nil {
		return nil, err
	}
	comment, err := githubserver.RegisterIssueCommentCreated(es, githubserver.IssueCommentCreatedHooks{})
	if err != nil {
		return nil, err
	}
	push, err := githubserver.RegisterPush(es, githubserver.PushHooks{})
	if err != nil {
		return nil, err
	}
	run, err := githubserver.RegisterWorkflowRunCompleted(es, githubserver.WorkflowRunCompletedHooks{})
	if err != nil {
		return nil, err
	}
	release, err := githubserver.RegisterReleasePublished(es, githubserver.ReleasePublishedHooks{})
	if err != nil {
		return nil, err
	}
	return map[string]emitFunc{
		"pull_request":  emitAs(pullRequest, "opened", pullRequestOpened),
		"issues":        emitAs(issue, "opened", issuesOpened),
		"issue_comment": emitAs(comment, "created", issueCommentCreated),
		"push":          emitAs(push, "", pushed),
		"workflow_run":  emitAs(run, "completed", workflowRunCompleted),
		"release":       emitAs(release, "published", releasePublished),
	}, nil
}

// An emitter emits occurrences of one event type. It may be a wrapper.
type emitter[P any] interface {
	Emit(ctx context.Context, p P, o ...events.EmitOption) error
}

// emitAs returns a function that decodes a body, maps it to a payload and emits the payload. The function skips bodies
// with a different action. The eventId is the delivery's id, so that subscribers recognize a redelivery.
func emitAs[P any](e emitter[P], action string, payload func(*body) (P, error)) emitFunc {
	return func(ctx context.Context, delivery string, raw []byte) error {
		var b body
		if err := json.Unmarshal(raw, &b); err != nil {
			return &bodyError{err}
		}
		if b.Action != action {
			return errSkip
		}
		p, err := payload(&b)
		if err != nil {
			return &bodyError{err}
		}
		return e.Emit(ctx, p, events.WithID(delivery))
	}
}

// body contains the fields that the server reads from GitHub's bodies.
type body struct {
	Action     string `json:"action"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	PullRequest *struct {
		issue
		Draft bool   `json:"draft"`
		Base  branch `json:"base"`
		Head  branch `json:"head"`
	} `json:"pull_request"`
	Issue   *issue `json:"issue"`
	Comment *struct {
		ID        int64       `json:"id"`
		User      user        `json:"user"`
		HTMLURL   string      `json:"html_url"`
		CreatedAt events.Time `json:"created_at"`
	} `json:"comment"`
	Ref     string            `json:"ref"`
	Before  string            `json:"before"`
	After   string            `json:"after"`
	Forced  bool              `json:"forced"`
	Compare string            `json:"compare"`
	Commits []json.RawMessage `json:"commits"`
	Pusher  *struct {
		Name string `json:"name"`
	} `json:"pusher"`
	WorkflowRun *struct {
		ID         int64       `json:"id"`
		Name       string      `json:"name"`
		HeadBranch string      `json:"head_branch"`
		Conclusion *string     `json:"conclusion"`
		Event      string      `json:"event"`
		HTMLURL    string      `json:"html_url"`
		UpdatedAt  events.Time `json:"updated_at"`
	} `json:"workflow_run"`
	Release *struct {
		TagName     string      `json:"tag_name"`
		Name        *string     `json:"name"`
		Target      string      `json:"target_commitish"`
		Prerelease  bool        `json:"prerelease"`
		Author      user        `json:"author"`
		HTMLURL     string      `json:"html_url"`
		PublishedAt events.Time `json:"published_at"`
	} `json:"release"`
}

type issue struct {
	Number    int64       `json:"number"`
	Title     string      `json:"title"`
	User      user        `json:"user"`
	Labels    []label     `json:"labels"`
	HTMLURL   string      `json:"html_url"`
	CreatedAt events.Time `json:"created_at"`
}

type user struct {
	Login string `json:"login"`
	Type  string `json:"type"`
}

type label struct {
	Name string `json:"name"`
}

type branch struct {
	Ref string `json:"ref"`
}

func missing(member string) error { return fmt.Errorf("member %s is missing", member) }

func (b *body) repo() github.Repo { return github.Repo(b.Repository.FullName) }

func (u user) payload() github.User {
	return github.User{Login: u.Login, Type: github.UserType(u.Type)}
}

func (i *issue) labels() []github.Label {
	names := make([]github.Label, len(i.Labels))
	for n, l := range i.Labels {
		names[n] = github.Label(l.Name)
	}
	return names
}

func pullRequestOpened(b *body) (p github.PullRequestOpenedPayload, err error) {
	pr := b.PullRequest
	if pr == nil {
		return p, missing("pull_request")
	}
	return github.PullRequestOpenedPayload{
		Repo: b.repo(), Number: pr.Number, Title: pr.Title, Author: pr.User.payload(), Base: github.Branch(pr.Base.Ref), Head: pr.Head.Ref,
		Labels: pr.labels(), Draft: pr.Draft, URL: pr.HTMLURL, CreatedAt: pr.CreatedAt,
	}, nil
}

func issuesOpened(b *body) (p github.IssuesOpenedPayload, err error) {
	i := b.Issue
	if i == nil {
		return p, missing("issue")
	}
	return github.IssuesOpenedPayload{
		Repo: b.repo(), Number: i.Number, Title: i.Title, Author: i.User.payload(), Labels: i.labels(), URL: i.HTMLURL, CreatedAt: i.CreatedAt,
	}, nil
}

func issueCommentCreated(b *body) (p github.IssueCommentCreatedPayload, err error) {
	i, c := b.Issue, b.Comment
	if i == nil || c == nil {
		return p, missing("issue or comment")
	}
	return github.IssueCommentCreatedPayload{
		Repo: b.repo(), Issue: i.Number, CommentID: c.ID, Author: c.User.payload(), Labels: i.labels(), URL: c.HTMLURL, CreatedAt: c.CreatedAt,
	}, nil
}

func pushed(b *body) (p github.PushPayload, err error) {
	if b.Ref == "" || b.Pusher == nil {
		return p, missing("ref or pusher")
	}
	p = github.PushPayload{
		Repo: b.repo(), Ref: b.Ref, Before: b.Before, After: b.After, Commits: int64(len(b.Commits)), Pusher: b.Pusher.Name, Forced: b.Forced, URL: b.Compare,
	}
	if name, ok := strings.CutPrefix(b.Ref, "refs/heads/"); ok {
		branch := github.Branch(name)
		p.Branch = &branch
	}
	return p, nil
}

func workflowRunCompleted(b *body) (p github.WorkflowRunCompletedPayload, err error) {
	r := b.WorkflowRun
	if r == nil {
		return p, missing("workflow_run")
	}
	p = github.WorkflowRunCompletedPayload{
		Repo: b.repo(), RunID: r.ID, Workflow: r.Name, Branch: github.Branch(r.HeadBranch), Trigger: r.Event, URL: r.HTMLURL, UpdatedAt: r.UpdatedAt,
	}
	if r.Conclusion != nil {
		c := github.WorkflowRunCompletedPayloadConclusion(*r.Conclusion)
		p.Conclusion = &c
	}
	return p, nil
}

func releasePublished(b *body) (p github.ReleasePublishedPayload, err error) {
	r := b.Release
	if r == nil {
		return p, missing("release")
	}
	return github.ReleasePublishedPayload{
		Repo: b.repo(), Tag: r.TagName, Name: r.Name, Target: github.Branch(r.Target), Prerelease: r.Prerelease, Author: r.Author.payload(), URL: r.HTMLURL, PublishedAt: r.PublishedAt,
	}, nil
}
