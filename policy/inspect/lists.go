package inspect

import (
	"regexp"
	"slices"

	"sallyport/policy"
)

// lists are the compiled forms of one policy.Data.
type lists struct {
	data     *policy.Data
	guards   globs
	builtin  globs
	patterns []pattern
}

type pattern struct {
	policy.Pattern
	re  prefiltered
	all prefiltered // matches a text when one of its lines may match
}

// current compiles the data in force, once per *Data.
func (i *Inspector) current() *lists {
	var d *policy.Data
	if i.o.Data != nil {
		d = i.o.Data()
	}
	if l := i.lists.Load(); l != nil && l.data == d {
		return l
	}
	l := compileLists(d)
	i.lists.Store(l)
	return l
}

func compileLists(d *policy.Data) *lists {
	l := &lists{data: d, builtin: compileGuards(defaultGuards())}
	if d == nil {
		return l
	}
	l.guards = compileGuards(d.Guards)
	for _, p := range d.Patterns {
		// A pattern that does not compile is refused where data is loaded.
		if re, err := regexp.Compile(p.Regex); err == nil {
			l.patterns = append(l.patterns, pattern{p, prefilter(re), prefilter(regexp.MustCompile("(?m:" + p.Regex + ")"))})
		}
	}
	return l
}

// guard is the class of a path: the data's, or where that has none the
// built-in one.
func (l *lists) guard(rel, abs string) policy.Guard {
	if g := l.guards.match(rel, abs); g != "" {
		return g
	}
	return l.builtin.match(rel, abs)
}

// match are the ids of the patterns for one kind of text that match it.
func (l *lists) match(on, text string) []string {
	var ids []string
	for _, p := range l.patterns {
		if slices.Contains(p.On, on) && p.re.MatchString(text) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// defaultGuards hold even where the data names none.
func defaultGuards() map[policy.Guard][]string {
	return map[policy.Guard][]string{
		policy.GuardSelf: {"**/.sallyport/**", "**/sallyport/policy/**", "**/.config/sallyport/**", "**/.local/state/sallyport/**", "**/.sallyport.yaml", "**/sallyport/agent.sock", "**/sallyport/control.sock"},
		policy.GuardAgent: {"**/.mcp.json", "**/.claude", "**/.claude/**", "**/.claude.json", "**/CLAUDE.md", "**/AGENTS.md", "**/.cursor/**", "**/.cursorrules",
			"**/.codex/**", "**/.gemini/**", "**/.windsurf/**", "**/.windsurfrules", "**/.aider.conf.yml", "**/.continue/**", "**/.roo/**", "**/.clinerules", "**/.github/copilot-instructions.md"},
		policy.GuardHook: {"**/.git", "**/.git/hooks", "**/.git/hooks/**", "**/.git/config", "**/.git/config.worktree", "**/.git/info/attributes", "**/.gitconfig", "**/.gitmodules",
			"**/.gitattributes", "**/.husky/**", "**/.githooks/**", "**/.pre-commit-config.yaml", "**/lefthook.yml", "**/.lefthook.yml", "/etc/gitconfig", "**/.config/git/**"},
		policy.GuardSecret: {"**/.env", "**/.env.*", "**/.netrc", "**/.pgpass", "**/.npmrc", "**/.pypirc", "**/.git-credentials", "**/.ssh/**", "**/.ssh", "**/.aws/**", "**/.gnupg/**",
			"**/.kube/**", "**/.docker/config.json", "**/.config/gcloud/**", "**/.azure/**", "**/id_rsa", "**/id_ed25519", "**/id_ecdsa", "**/id_dsa", "**/*.pem", "**/*.key", "**/*.p12",
			"**/*.pfx", "**/*.jks", "**/*.keystore", "**/credentials.json", "**/service-account*.json", "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d/**", "**/.vault-token", "**/.htpasswd",
			"**/secrets.yml", "**/secrets.yaml", "**/master.key", "/proc/*/environ", "/proc/*/mem", "**/.bash_history", "**/.zsh_history", "**/.config/gh/**", "**/.cargo/credentials*", "**/.terraform.d/**"},
		policy.GuardCI: {"**/.github/workflows/**", "**/.github/actions/**", "**/.gitlab-ci.yml", "**/.circleci/**", "**/.travis.yml", "**/Jenkinsfile", "**/azure-pipelines.yml", "**/.drone.yml",
			"**/.woodpecker/**", "**/.woodpecker.yml", "**/.buildkite/**", "**/bitbucket-pipelines.yml", "**/appveyor.yml", "**/.appveyor.yml", "**/.ci/**", "**/cloudbuild.yaml", "**/.teamcity/**", "**/.forgejo/workflows/**",
			"**/.gitea/workflows/**", "**/buildspec.yml", "**/CODEOWNERS", "**/dependabot.yml", "**/renovate.json"},
		policy.GuardShellRC: {"**/.bashrc", "**/.bash_profile", "**/.bash_login", "**/.bash_logout", "**/.bash_aliases", "**/.profile", "**/.zshrc", "**/.zshenv", "**/.zprofile", "**/.zlogin", "**/.kshrc",
			"**/.config/fish/**", "**/.envrc", "**/.direnvrc", "**/.inputrc", "**/.vimrc", "**/.exrc", "**/.tmux.conf", "**/.screenrc", "/etc/profile", "/etc/profile.d/**", "/etc/bash.bashrc", "/etc/environment",
			"/etc/ld.so.preload", "/etc/ld.so.conf.d/**", "/etc/cron*/**", "/etc/crontab", "/var/spool/cron/**", "/etc/systemd/**", "/etc/init.d/**", "/etc/rc.local", "**/.config/autostart/**", "**/.config/systemd/**", "/etc/pam.d/**"},
		policy.GuardAutorun: {"**/conftest.py", "**/sitecustomize.py", "**/usercustomize.py", "**/*.pth", "**/build.rs", "**/setup.py", "**/noxfile.py", "**/.vscode/**", "**/.idea/**", "**/.devcontainer/**",
			"**/package.json", "**/Makefile", "**/makefile", "**/GNUmakefile", "**/binding.gyp", "**/.cargo/config.toml", "**/.cargo/config", "**/gradlew", "**/.mvn/**", "**/.yarnrc.yml", "**/.yarn/**", "**/.pnpmfile.cjs",
			"**/.eslintrc.js", "**/.eslintrc.cjs", "**/.python-version", "**/.tool-versions", "**/mise.toml", "**/.mise.toml", "**/pytest.ini", "**/tox.ini", "**/Rakefile", "**/.irbrc", "**/.pryrc", "**/.gdbinit", "**/.lldbinit",
			"**/.editorconfig", "**/.sublime-project", "**/.pdbrc", "**/.psqlrc", "**/.sqliterc", "**/.npmignore"},
		policy.GuardConfig: {"**/Dockerfile", "**/docker-compose.yml", "**/docker-compose.yaml", "**/compose.yaml", "**/compose.yml", "**/k8s/**", "**/kubernetes/**", "**/helm/**", "**/charts/**", "**/*.tf", "**/*.tfvars", "**/terraform/**",
			"**/ansible.cfg", "**/fly.toml", "**/vercel.json", "**/netlify.toml", "**/Procfile", "**/app.yaml", "**/serverless.yml", "**/nginx.conf", "/etc/**", "**/alembic.ini", "**/Pulumi.yaml", "**/skaffold.yaml", "**/Caddyfile"},
	}
}
