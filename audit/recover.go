package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// fileState is what recovery found of one file that an interrupted call named.
type fileState struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"` // empty when absent or unknown
	State  string `json:"state"`            // "present", "absent" or why it is not known
}

// interrupted is the outcome of a call that the log's last process left open.
func (l *Log) interrupted(intent Record) Record {
	seq := intent.Seq
	r := Record{
		Kind: KindOutcome, Intent: &seq, Status: StatusInterrupted,
		Call: intent.Call, Key: intent.Key, Session: intent.Session, Agent: intent.Agent,
		User: intent.User, Client: intent.Client, Workspace: intent.Workspace,
		Tool: intent.Tool, Tier: intent.Tier, Verdict: intent.Verdict, Trace: intent.Trace,
		Error: "sallyport stopped while the call ran; look at the files it names before repeating it",
	}
	var states []fileState
	for _, path := range namedFiles(intent.Action) {
		states = append(states, l.stateOf(intent.Workspace, path))
	}
	if detail, err := json.Marshal(map[string]any{"files": states}); err == nil && len(states) > 0 {
		r.Detail = detail
	}
	return r
}

// namedFiles lists the paths in an Action's JSON without knowing its type.
func namedFiles(action json.RawMessage) []string {
	var a struct {
		Files []struct{ Path, To string }
	}
	if json.Unmarshal(action, &a) != nil {
		return nil
	}
	var out []string
	seen := map[string]bool{"": true}
	for _, f := range a.Files {
		for _, p := range []string{f.Path, f.To} {
			if !seen[p] {
				seen[p] = true
				out = append(out, p)
			}
		}
	}
	return out
}

func (l *Log) stateOf(workspace, path string) fileState {
	ask := l.opt.State
	if ask == nil {
		ask = fileSHA256
	}
	sum, err := ask(workspace, path)
	switch {
	case err != nil:
		return fileState{Path: path, State: err.Error()}
	case sum == "":
		return fileState{Path: path, State: "absent"}
	}
	return fileState{Path: path, SHA256: sum, State: "present"}
}

// fileSHA256 is the default of Options.State. It reads regular files beneath
// the workspace only.
func fileSHA256(workspace, path string) (string, error) {
	if workspace == "" || !filepath.IsLocal(path) {
		return "", errors.New("outside the workspace: not looked at")
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return "", err
	}
	defer root.Close()
	st, err := root.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !st.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
