package sandbox

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"sallyport/sandbox/cell"
)

// protectedPaths are read-only in every cell whatever the tier: they make
// other programs, or a later session of the agent's host, run code or drop
// guards. Relative to the workspace.
var protectedPaths = []string{
	".git/hooks", ".git/config", ".git/config.worktree", ".gitmodules", ".gitconfig",
	".mcp.json", ".claude", ".codex", ".cursor", ".gemini", ".windsurf", ".zed", ".vscode", ".idea",
	".devcontainer", ".envrc", ".ripgreprc",
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".sallyport", ".sallyport.yaml",
}

// protectedGit are the same within a repository's common directory.
var protectedGit = []string{"hooks", "config", "config.worktree"}

// hiddenPaths hold secrets and are covered, files and folders alike.
var hiddenPaths = []string{
	".env", ".netrc", ".pypirc", ".git-credentials", ".ssh", ".gnupg", ".aws", ".azure", ".kube",
	".config/gcloud", ".docker/config.json", ".pgpass", ".my.cnf", "credentials.json",
}

// hiddenPatterns are matched against the names in the workspace's own folder.
var hiddenPatterns = []string{
	".env.*", "id_rsa*", "id_ed25519*", "id_ecdsa*", "id_dsa*", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks",
	"*.keystore", "*.kdbx", "service-account*.json", "*credentials*.json",
}

// shownAnyway are names the patterns catch that hold no secret.
var shownAnyway = []string{".env.example", ".env.sample", ".env.template", ".env.dist", "*.pub"}

// guards lists the absolute paths of a workspace that are protected and
// hidden, as far as they exist, with a fingerprint of which files they are.
func guards(workspace string, t Terms, inside nestedNames) (protected, hidden []string, prints string) {
	names := inside.names
	var seen strings.Builder
	see := func(p string) bool {
		var st unix.Stat_t
		if unix.Lstat(p, &st) != nil {
			return false
		}
		fmt.Fprintf(&seen, "%s %d:%d %o\n", p, st.Dev, st.Ino, st.Mode)
		return true
	}
	pick := func(lists ...[]string) []string {
		var found []string
		for _, rel := range slices.Concat(lists...) {
			rel = filepath.Clean("/" + rel)[1:]
			first, _, _ := strings.Cut(rel, "/")
			if _, there := slices.BinarySearch(names, first); !there {
				continue
			}
			if p := filepath.Join(workspace, rel); see(p) {
				found = append(found, p)
			}
		}
		return found
	}
	with := func(found, nested []string) []string {
		for _, p := range nested {
			if see(p) {
				found = append(found, p)
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	protected = with(pick(protectedPaths, t.Protected), inside.protected)
	hidden = with(pick(hiddenPaths, secretNames(names), t.Hidden), inside.hidden)
	return protected, hidden, seen.String()
}

// pins are the folders between the workspace and its protected paths, outer
// ones first: without a pin one could be renamed and a new one made in its place.
func pins(workspace string, protected []string) []string {
	var list []string
	for _, p := range protected {
		for dir := filepath.Dir(p); dir != workspace && under(dir, workspace); dir = filepath.Dir(dir) {
			list = append(list, dir)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// holdNew moves protected paths that a run with direct writes made out of the
// way: where there was nothing, no mount could stand guard. A repository's own
// are left alone when the run made the repository. The paths are followed on
// descriptors through no symbolic link, because the run's files are not to be
// trusted.
func holdNew(workspace string, before []string, t Terms) []Denial {
	root, err := unix.Open(workspace, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(root)
	hadGit := slices.ContainsFunc(before, func(p string) bool { return under(p, filepath.Join(workspace, ".git")) })
	var denials []Denial
	for _, rel := range slices.Concat(protectedPaths, t.Protected) {
		rel = filepath.Clean("/" + rel)[1:]
		if rel == "" || slices.Contains(before, filepath.Join(workspace, rel)) || under(rel, ".git") && !hadGit {
			continue
		}
		if held, ok := holdOne(root, rel); ok {
			denials = append(denials, Denial{
				What:   fmt.Sprintf("%s was made by the command and moved to %s: protected path", rel, held),
				Remedy: "ask a person to put it in place: protected paths are not for commands to make",
			})
		}
	}
	return denials
}

// holdOne moves one path aside, within its folder.
func holdOne(root int, rel string) (held string, ok bool) {
	dir, err := unix.Openat2(root, filepath.Dir(rel), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return "", false
	}
	defer unix.Close(dir)
	name := filepath.Base(rel)
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return "", false
	}
	to := "held-by-sallyport-" + randomName()[:6] + "-" + strings.TrimPrefix(name, ".")
	if unix.Renameat2(dir, name, dir, to, unix.RENAME_NOREPLACE) != nil {
		return "", false
	}
	return filepath.Join(filepath.Dir(rel), to), true
}

func secretNames(names []string) []string {
	var found []string
	for _, n := range names {
		if matches(hiddenPatterns, n) && !matches(shownAnyway, n) {
			found = append(found, n)
		}
	}
	return found
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, strings.ToLower(name)) // the patterns are ours and well formed
		return ok
	})
}

// worktree finds the common directory of a linked git worktree, so that git
// works in it. The pointer in the workspace's .git file is believed only if
// the directory it names points back: else a planted file would have any
// folder of the machine mounted.
func worktree(workspace string) (common string, ok bool) {
	var st unix.Stat_t
	if unix.Lstat(workspace+"/.git", &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", false
	}
	pointer, err := os.ReadFile(filepath.Join(workspace, ".git"))
	if err != nil {
		return "", false
	}
	gitdir, found := strings.CutPrefix(strings.TrimSpace(string(pointer)), "gitdir: ")
	if !found {
		return "", false
	}
	if !filepath.IsAbs(gitdir) {
		gitdir = filepath.Join(workspace, gitdir)
	}
	gitdir, err = filepath.EvalSymlinks(gitdir)
	if err != nil || filepath.Base(filepath.Dir(gitdir)) != "worktrees" {
		return "", false
	}
	back, err := os.ReadFile(filepath.Join(gitdir, "gitdir"))
	if err != nil || !samePath(strings.TrimSpace(string(back)), filepath.Join(workspace, ".git"), gitdir) {
		return "", false
	}
	common = filepath.Dir(filepath.Dir(gitdir))
	for _, need := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(common, need)); err != nil {
			return "", false
		}
	}
	return common, true
}

// samePath compares a path git wrote (since 2.48 it may be relative) with one.
func samePath(written, want, base string) bool {
	if !filepath.IsAbs(written) {
		written = filepath.Join(base, written)
	}
	got, err := filepath.EvalSymlinks(written)
	return err == nil && got == want
}

// showWorktree adds a linked worktree's common directory to the view.
func showWorktree(v *cell.View) {
	common, ok := worktree(v.Workspace)
	if !ok || under(common, v.Workspace) {
		return
	}
	v.Binds = append(slices.Clip(v.Binds), cell.Bind{From: common, Writable: v.Writable && v.Layer == nil})
	v.Protected = append(v.Protected, filepath.Join(v.Workspace, ".git"))
	for _, rel := range protectedGit {
		v.Protected = append(v.Protected, filepath.Join(common, rel))
	}
}
