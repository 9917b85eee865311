package rego

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed starter
var starter embed.FS

// Starter is what a new layer begins with: name -> text of lists, an example
// rule and its test. It loads and passes as it is.
func Starter(layer string) (map[string]string, error) {
	if !layerName.MatchString(layer) || layer == "rules" || layer == builtin {
		return nil, fmt.Errorf("%q cannot be a policy layer; call it user, project or administrator", layer)
	}
	out := map[string]string{}
	entries, err := fs.ReadDir(starter, "starter")
	if err != nil {
		return nil, err
	}
	for _, f := range entries {
		if f.Name() == "owner.yaml" && layer != administrator && layer != user {
			continue
		}
		text, err := fs.ReadFile(starter, "starter/"+f.Name())
		if err != nil {
			return nil, err
		}
		out[f.Name()] = strings.ReplaceAll(string(text), "LAYER", layer)
	}
	return out, nil
}
