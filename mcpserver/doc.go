// Package mcpserver is the MCP edge: it speaks the protocol, knows who calls,
// and leads each call along its way. That way is Server.call in call.go; every
// station it passes (tools, policy, approvals, audit, sandbox) is called there,
// once, and no station calls another.
//
// It is the only package that imports mcp-go.
package mcpserver
