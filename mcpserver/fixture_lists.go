package mcpserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func (f fixture) resources() {
	for _, uri := range []string{"test://static-text", "test://watched-resource"} {
		f.m.AddResource(mcp.NewResource(uri, strings.TrimPrefix(uri, "test://"), mcp.WithResourceDescription("A text"), mcp.WithMIMEType("text/plain")),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.TextResourceContents{
					URI: uri, MIMEType: "text/plain", Text: "This is the content of the static text resource.",
				}}, nil
			})
	}
	f.m.AddResource(mcp.NewResource("test://static-binary", "static-binary", mcp.WithResourceDescription("A picture"), mcp.WithMIMEType("image/png")),
		func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			return []mcp.ResourceContents{mcp.BlobResourceContents{URI: "test://static-binary", MIMEType: "image/png", Blob: pixel}}, nil
		})
	f.m.AddResourceTemplate(mcp.NewResourceTemplate("test://template/{id}/data", "template",
		mcp.WithTemplateDescription("A text about an id"), mcp.WithTemplateMIMEType("application/json")),
		func(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
			return []mcp.ResourceContents{mcp.TextResourceContents{
				URI: r.Params.URI, MIMEType: "application/json", Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":%q}`, id, "Data for ID: "+id),
			}}, nil
		})
}

func (f fixture) prompts() {
	f.prompt(mcp.NewPrompt("test_simple_prompt", mcp.WithPromptDescription("A text")),
		func(map[string]string) []mcp.Content {
			return []mcp.Content{mcp.NewTextContent("This is a simple prompt for testing.")}
		})
	f.prompt(mcp.NewPrompt("test_prompt_with_arguments", mcp.WithPromptDescription("A text with two arguments"),
		mcp.WithArgument("arg1", mcp.ArgumentDescription("First test argument"), mcp.RequiredArgument()),
		mcp.WithArgument("arg2", mcp.ArgumentDescription("Second test argument"), mcp.RequiredArgument())),
		func(args map[string]string) []mcp.Content {
			return []mcp.Content{mcp.NewTextContent(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"]))}
		})
	f.prompt(mcp.NewPrompt("test_prompt_with_embedded_resource", mcp.WithPromptDescription("A resource"),
		mcp.WithArgument("resourceUri", mcp.ArgumentDescription("URI of the resource to embed"), mcp.RequiredArgument())),
		func(args map[string]string) []mcp.Content {
			return []mcp.Content{
				fixtureText(args["resourceUri"], "text/plain", "Embedded resource content for testing."),
				mcp.NewTextContent("Please process the embedded resource above."),
			}
		})
	f.prompt(mcp.NewPrompt("test_prompt_with_image", mcp.WithPromptDescription("A picture")),
		func(map[string]string) []mcp.Content {
			return []mcp.Content{mcp.NewImageContent(pixel, "image/png"), mcp.NewTextContent("Please analyze the image above.")}
		})
	f.m.AddPrompt(mcp.NewPrompt("test_input_required_result_prompt", mcp.WithPromptDescription("A prompt that asks first")),
		func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			if !answered(r.Params.InputResponses, "user_context") {
				b := server.NewInputRequestBuilder("")
				askForm("What context should the prompt use?", object(`{"context":{"type":"string"}}`, "context"))(b, "user_context")
				return b.PromptResult(), nil
			}
			return &mcp.GetPromptResult{Messages: []mcp.PromptMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("thank you")}}}, nil
		})
}

// prompt adds a prompt that says the same to the same arguments.
func (f fixture) prompt(p mcp.Prompt, say func(map[string]string) []mcp.Content) {
	f.m.AddPrompt(p, func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		out := &mcp.GetPromptResult{}
		for _, c := range say(r.Params.Arguments) {
			out.Messages = append(out.Messages, mcp.PromptMessage{Role: mcp.RoleUser, Content: c})
		}
		return out, nil
	})
}
