package mcpserver

import (
	"context"

	"github.com/mark3labs/mcp-go/mcp"
)

// prompt is a text for a person to start a turn with, and the resources it wants
// the model to read first.
type prompt struct {
	name, about, text string
	reads             []string
}

// addPrompts adds what people ask most about a gate.
func (s *Server) addPrompts() {
	all := []prompt{
		{"work-here", "Begin work in this workspace within its rules",
			"Read where you work and which rules judge your calls. Then say in a few lines what you may do alone and what a person has to confirm, and ask what I want done.",
			[]string{uriWorkspace}},
	}
	if s.o.History != nil {
		all = append(all,
			prompt{"what-happened", "Sum up what this session did",
				"Sum up what this session did so far: what changed, what failed, what was refused and by which rule. Name files. Do not run anything.",
				[]string{uriSession}},
			prompt{"why-refused", "Explain the latest refusal and what to do instead",
				"Find the latest call that was denied or waits for a person. Explain in plain words which rule stopped it and why, and propose another way that follows the rule's remedy. Do not try another spelling of the same thing.",
				[]string{uriSession}})
	}
	for _, p := range all {
		s.mcp.AddPrompt(mcp.NewPrompt(p.name, mcp.WithPromptDescription(p.about)),
			func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				r := &mcp.GetPromptResult{Description: p.about}
				for _, uri := range p.reads {
					r.Messages = append(r.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: mcp.NewResourceLink(uri, uri, "read this first", "application/json")})
				}
				r.Messages = append(r.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: mcp.NewTextContent(p.text)})
				return r, nil
			})
	}
}
