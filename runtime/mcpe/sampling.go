package mcpe

//lint:file-ignore SA1019 sampling is deprecated in the protocol; clients that still offer it are served until its removal.

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// requestSampling sends the request to the subscriber's model on its session.
func (g *agent) requestSampling(ctx context.Context, request AgentRequest, ss *mcp.ServerSession) error {
	if ss == nil {
		return errors.New("the subscriber has no session to sample on")
	}
	init := ss.InitializeParams()
	if init == nil || init.Capabilities == nil || init.Capabilities.Sampling == nil {
		return errors.New("the subscriber's client does not offer sampling")
	}
	tokens := cmp.Or(request.MaxTokens, defaultTokens)
	text := string(encode(&request.Event))
	if request.Instructions != "" {
		text = request.Instructions + "\n\n" + text
	}
	params := &mcp.CreateMessageParams{SystemPrompt: request.SystemPrompt, MaxTokens: tokens,
		Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}
	if request.Model != "" {
		params.ModelPreferences = &mcp.ModelPreferences{Hints: []*mcp.ModelHint{{Name: request.Model}}}
	}
	answer, err := ss.CreateMessage(ctx, params)
	if err != nil {
		return fmt.Errorf("sampling: %w", err)
	}
	if g.o.Sampled != nil {
		said, _ := answer.Content.(*mcp.TextContent)
		if said == nil {
			said = &mcp.TextContent{}
		}
		g.o.Sampled(ctx, request, said.Text)
	}
	return nil
}
