package inspect

import (
	"maps"
	"slices"
	"strings"
)

// envRuns are environment variables whose value some program runs, and how it
// is read: '!' a shell text, 'S' a script, 'x' a file that is loaded as code.
var envRuns = map[string]byte{
	"PAGER": '!', "MANPAGER": '!', "GIT_PAGER": '!', "SYSTEMD_PAGER": '!', "PSQL_PAGER": '!', "GH_PAGER": '!', "BAT_PAGER": '!', "AWS_PAGER": '!', "DELTA_PAGER": '!',
	"EDITOR": '!', "VISUAL": '!', "GIT_EDITOR": '!', "GIT_SEQUENCE_EDITOR": '!', "SUDO_EDITOR": '!', "FCEDIT": '!', "KUBE_EDITOR": '!', "PSQL_EDITOR": '!',
	"GIT_SSH_COMMAND": '!', "GIT_SSH": '!', "GIT_PROXY_COMMAND": '!', "GIT_EXTERNAL_DIFF": '!', "GIT_ASKPASS": '!', "SSH_ASKPASS": '!', "SUDO_ASKPASS": '!',
	"RSYNC_RSH": '!', "CVS_RSH": '!', "SVN_SSH": '!', "LESSOPEN": '!', "LESSCLOSE": '!', "BROWSER": '!', "MANROFFOPT": '.', "TAR_OPTIONS": '.', "RIPGREP_CONFIG_PATH": '<',
	"PYTHONSTARTUP": 'x', "PYTHONPATH": '.', "PYTHONHOME": 'x', "PERL5OPT": '.', "PERL5LIB": '.', "RUBYOPT": '.', "RUBYLIB": '.', "NODE_OPTIONS": '.', "NODE_PATH": '.',
	"LD_PRELOAD": 'x', "LD_AUDIT": 'x', "LD_LIBRARY_PATH": '.', "DYLD_INSERT_LIBRARIES": 'x', "GCONV_PATH": 'x', "OPENSSL_CONF": 'x', "GIT_TEMPLATE_DIR": 'x', "GIT_EXEC_PATH": 'x',
	"JAVA_TOOL_OPTIONS": '.', "_JAVA_OPTIONS": '.', "MAVEN_OPTS": '.', "BASH_ENV": 'x', "ENV": 'x', "ZDOTDIR": 'x', "PROMPT_COMMAND": '!', "CARGO_BUILD_RUSTC_WRAPPER": '!', "RUSTC_WRAPPER": '!',
	"CC_WRAPPER": '!', "GOFLAGS": '.', "MAKEFLAGS": '.', "npm_config_script_shell": '!', "GIT_CONFIG_GLOBAL": '<', "GIT_CONFIG_SYSTEM": '<', "SSH_SK_HELPER": '!', "VIMINIT": '.', "EXINIT": '.',
}

// environment follows the variables put into a command's environment that make
// some program run something.
func (c *call) environment(vars map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		value := vars[name]
		c.setting(name, word{s: value, opaque: c.s.dark[name]})
		if key, ok := strings.CutPrefix(name, "GIT_CONFIG_KEY_"); ok {
			c.gitSetting(value, vars["GIT_CONFIG_VALUE_"+key], false, map[string]string{})
		}
	}
}

func (c *call) setting(name string, v word) {
	value, opaque := v.s, v.opaque
	if value == "" || value == "cat" || value == "true" {
		return
	}
	switch envRuns[name] {
	case '!':
		text := strings.TrimLeft(value, "|- ")
		if !opaque || strings.ContainsAny(text, " ;|&") {
			c.shell(word{s: text, opaque: opaque}, name)
		}
	case 'x':
		for _, file := range strings.FieldsFunc(value, func(r rune) bool { return r == ':' || r == ' ' }) {
			c.target(opExec, word{s: file, opaque: opaque})
		}
	case '<':
		c.reads(word{s: value, opaque: opaque})
	case '.':
		c.optionText(value)
	}
}

// optionText looks at a variable that holds options or code for an interpreter.
func (c *call) optionText(value string) {
	fields := strings.Fields(value)
	for i, f := range fields {
		for _, load := range []string{"--require=", "--import=", "-r", "-javaagent:", "--checkpoint-action=exec=", "--to-command=", "-toolexec=", "-exec="} {
			rest, ok := strings.CutPrefix(f, load)
			if !ok {
				continue
			}
			if rest == "" && i+1 < len(fields) {
				rest = fields[i+1]
			}
			switch {
			case strings.Contains(load, "exec") || strings.Contains(load, "command"):
				c.shell(word{s: rest}, load)
			case strings.ContainsAny(rest, "/."):
				c.target(opExec, word{s: rest})
			}
		}
	}
	if i := strings.IndexAny(value, "!"); i >= 0 && i < 8 {
		c.shell(word{s: value[i+1:]}, "!")
	}
}
