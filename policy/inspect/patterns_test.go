package inspect

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"sallyport/policy"
)

// The four patterns every spelling of which must be visible in the facts.

func wipesRoot(f policy.Facts) bool {
	return anyTarget(f, func(t policy.FileFact) bool { return t.Op == "remove" && (t.Path == "/" || t.Path == "/*") })
}

func forcesPush(f policy.Facts) bool {
	return slices.ContainsFunc(f.Cmds, func(c policy.Cmd) bool {
		return c.Program == "git" && c.Sub == "push" &&
			(slices.Contains(c.Flags, "--force") || slices.Contains(c.Flags, "--force-with-lease") ||
				slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "+") }))
	})
}

func opensMode(f policy.Facts) bool {
	return slices.ContainsFunc(f.Cmds, func(c policy.Cmd) bool {
		return c.Program == "chmod" && len(c.Args) > 1 && worldWritable(c.Args)
	})
}

func writesDevice(f policy.Facts) bool {
	return anyTarget(f, func(t policy.FileFact) bool { return t.Op == "write" && t.Scope == policy.ScopeDevice }) ||
		slices.ContainsFunc(f.Cmds, func(c policy.Cmd) bool {
			return slices.ContainsFunc(c.Redirects, func(r policy.Redirect) bool {
				return r.Op != "<" && r.Scope == policy.ScopeDevice
			})
		})
}

func anyTarget(f policy.Facts, is func(policy.FileFact) bool) bool {
	return slices.ContainsFunc(f.Cmds, func(c policy.Cmd) bool { return slices.ContainsFunc(c.Targets, is) })
}

func TestFourPatterns(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		seen  func(policy.Facts) bool
		texts []string
	}{
		"rm -rf /": {wipesRoot, []string{
			`rm -rf /`, `rm  -r   -f  /`, `rm -fr /`, `rm -r -f -v /`, `rm --recursive --force /`, `rm --rec --fo /`, `/bin/rm -rf /`, `\rm -rf /`,
			`r"m" -rf /`, `'rm' -rf '/'`, `r\m -rf /`, `$'\x72m' -rf /`, `sh -c 'rm -rf /'`, `bash -lc "rm -rf /"`, `bash -euxc 'rm -rf /'`, `eval rm -rf /`,
			`eval "rm -rf /"`, `x=rm; $x -rf /`, `x='rm -rf /'; $x`, `x=/; rm -rf $x`, `echo / | xargs rm -rf`, `printf '/\n' | xargs -I{} rm -rf {}`,
			`find / -delete`, `find / -exec rm -rf {} +`, `find / -execdir rm -rf {} \;`, `env rm -rf /`, `env -i A=b rm -rf /`, `sudo -u root rm -rf /`,
			`cd / && rm -rf *`, `cd /; rm -rf .`, `rm -rf /tmp/../`, `rm -rf //`, `rm -rf /.`, `rm -rf /*`, `rm -rf -- /`, `rm -rf --no-preserve-root /`,
			`timeout 5 rm -rf /`, `nice -n 5 rm -rf /`, `nohup rm -rf / &`, `busybox rm -rf /`, `command rm -rf /`, `exec rm -rf /`, `time rm -rf /`,
			"rm -rf \\\n/", `{ rm -rf /; }`, `(rm -rf /)`, `if true; then rm -rf /; fi`, `for i in /; do rm -rf $i; done`, `f() { rm -rf $1; }; f /`,
			`trap 'rm -rf /' EXIT`, `echo $(rm -rf /)`, "echo `rm -rf /`", `cat <(rm -rf /)`, `bash <<< 'rm -rf /'`, "bash <<EOF\nrm -rf /\nEOF", `echo 'rm -rf /' | sh`,
			`echo cm0gLXJmIC8= | base64 -d | sh`, `printf '\x72m -rf /' | bash`, `${x:-rm} -rf /`, `r${z}m -rf /`, `rm${IFS}-rf${IFS}/`, `{rm,-rf,/}`,
			`python3 -c "import os; os.system('rm -rf /')"`, `python3 -c "import shutil; shutil.rmtree('/')"`, `perl -e 'system("rm -rf /")'`,
			`node -e "require('child_process').execSync('rm -rf /')"`, `awk 'BEGIN{system("rm -rf /")}'`, `ssh host rm -rf /`, `docker run --rm -v /:/h alpine rm -rf /`,
			`[[ -v 'a[$(rm -rf /)]' ]]`, `rm -rf /proc/self/root`, `a=(rm -rf /); "${a[@]}"`, `alias x='rm -rf /'`, `watch 'rm -rf /'`, `su -c 'rm -rf /'`, `su root -c 'rm -rf /'`,
			`coproc rm -rf /`, `find . -ok rm -rf / \;`, `git -c alias.x='!rm -rf /' x`, `set -- rm -rf /; "$@"`, `while read x; do rm -rf $x; done <<< /`,
		}},
		"git push --force": {forcesPush, []string{
			`git push --force`, `git push -f`, `git push origin main -f`, `git push  --force  origin`, `git push --force-with-lease`, `git push --force-with-lease=main`,
			`git push origin +main`, `git -C x push -f`, `git -c a.b=c push -uf origin x`, `git push --forc`, `/usr/bin/git push -f`, `g"i"t pu"sh" -f`, `sh -c 'git push -f'`,
			`eval git push -f`, `x=push; git $x --force`, `git -c alias.p='push -f' p`, `env GIT_TRACE=1 git push -f`,
		}},
		"chmod 777": {opensMode, []string{
			`chmod 777 f`, `chmod -R 777 .`, `chmod 0777 f`, `chmod a+rwx f`, `chmod ugo=rwx f`, `chmod ugo+rwx f`, `chmod +rwx f`, `chmod -v -R 777 f`, `find . -exec chmod 777 {} +`,
			`echo f | xargs chmod 777`, `/bin/chmod 777 f`, `sudo chmod a=rwx f`, `m=777; chmod $m f`, `chmod 1777 f`,
		}},
		"> /dev/sda": {writesDevice, []string{
			`echo x > /dev/sda`, `echo x >/dev/sda1`, `echo x >| /dev/sda`, `echo x >> /dev/sda`, `dd if=/dev/zero of=/dev/sda`, `dd of="/dev/sda"`, `tee /dev/sda`, `cat x | sudo tee -a /dev/sdb`,
			`cp x /dev/nvme0n1`, `mkfs.ext4 /dev/sda`, `mkfs -t ext4 /dev/sda1`, `wipefs -a /dev/sda`, `shred /dev/sda`, `d=/dev/sda; echo > $d`, `cd /dev; echo x > sda`, `exec 3>/dev/sda`, `: > /dev/sda`, `> /dev/sda`, `{ echo x; } > /dev/sda`,
			`while :; do echo x; done > /dev/sda`, `cat x &> /dev/sda`, `sh -c 'cat x > /dev/sda'`, `sort -o /dev/sda x`, `curl -o /dev/sda http://h/`,
		}},
	} {
		for _, text := range tc.texts {
			f := look(t, nil, text)
			if name == "> /dev/sda" && (strings.HasPrefix(text, "shred")) {
				assert.True(t, anyTarget(f, func(t policy.FileFact) bool { return t.Scope == policy.ScopeDevice }), "%s: %s", name, text)
				continue
			}
			assert.True(t, tc.seen(f), "%s: %s", name, text)
		}
	}
}
