package rego

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/keys"
)

// bundleFile is the name of a signed bundle in its layer's folder.
const bundleFile = "bundle.tar.gz"

// Signature holds a layer to a signed bundle: its folder must hold
// bundle.tar.gz, as `opa build --signing-key` makes it, and nothing else in the
// folder is read. A bundle that is unsigned, altered or signed by another key is
// an error.
type Signature struct {
	PublicKey string // PEM
	Algorithm string // "RS256", "ES256", "EdDSA" …; "" means RS256
}

// keyID is the only key there is, whatever the bundle calls it.
const keyID = "sallyport"

// unbundle verifies the bundle of a layer and lists its files.
func unbundle(l Layer) (map[string][]byte, error) {
	text, err := readBounded(l.FS, bundleFile)
	if err != nil {
		return nil, fmt.Errorf("read the signed bundle of the policy layer %q: %w", l.Name, err)
	}
	algorithm := l.Signature.Algorithm
	if algorithm == "" {
		algorithm = "RS256"
	}
	key := &keys.Config{Key: l.Signature.PublicKey, Algorithm: algorithm}
	b, err := bundle.NewCustomReader(bundle.NewTarballLoaderWithBaseURL(bytes.NewReader(text), "")).
		WithBundleVerificationConfig(bundle.NewVerificationConfig(map[string]*bundle.KeyConfig{keyID: key}, keyID, "", nil)).
		WithSizeLimitBytes(maxFile).
		WithProcessAnnotations(true).
		Read()
	if err != nil {
		return nil, fmt.Errorf("verify the signed bundle of the policy layer %q: %w", l.Name, err)
	}
	files := map[string][]byte{}
	for _, m := range b.Modules {
		files[strings.TrimPrefix(m.Path, "/")] = m.Raw
	}
	if len(b.Data) > 0 {
		if files["data.yaml"], err = json.Marshal(b.Data); err != nil {
			return nil, fmt.Errorf("read the lists of the signed bundle: %w", err)
		}
	}
	return files, nil
}
