package identity

import (
	"encoding/json"
	"net/http"
	"net/url"
)

// ResourcePath is where RFC 9728 metadata is served.
const ResourcePath = "/.well-known/oauth-protected-resource"

// Resource is the OAuth protected-resource metadata (RFC 9728) of this server:
// which authorization servers' tokens it takes.
type Resource struct {
	Resource string   `json:"resource"` // the URL of /mcp
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Bearer   []string `json:"bearer_methods_supported"` // "header"
	Name     string   `json:"resource_name"`
}

// NewResource is the metadata of a server at a URL.
func NewResource(at string, servers ...string) Resource {
	return Resource{Resource: at, Servers: servers, Bearer: []string{"header"}, Name: "Sallyport"}
}

// URL is where the metadata can be read: its well-known path is put before the
// resource's own path (RFC 9728, section 3.1).
func (r Resource) URL() string {
	u, err := url.Parse(r.Resource)
	if err != nil || u.Host == "" {
		return ""
	}
	u.Path = ResourcePath + u.EscapedPath()
	return u.String()
}

func (r Resource) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(r)
}
