#!/bin/sh
# Runs the cell tests on another kernel: Debian's cloud kernel in QEMU, with
# cgroup v2, Landlock ABI 2 and no network card, as root and as an ordinary
# user, with and without a delegated control group and user namespaces.
#
#   sandbox/vmtest_run.sh [WORKDIR]      (default: build/vm)
#
# Needs qemu-system-x86, busybox-static, e2fsprogs, git, python3 and go. Takes
# three to five minutes without KVM on two cores. VM_RUN narrows the tests
# (-test.run), VM_TIMEOUT is in seconds. The whole console is in WORKDIR/log.
# Exit codes: 0 all passed, 1 a test failed or the machine did not end by
# itself, 3 this machine lacks something.
set -eu
cd "$(dirname "$0")/.."
work=${1:-build/vm}
mkdir -p "$work"
work=$(cd "$work" && pwd)
. sandbox/vm.sh
vm_need git python3

python=$(basename "$(readlink -f /usr/bin/python3)")
programs="bash sh cat ls echo mkdir rmdir rm mv cp ln chmod chown touch env sleep seq head tail wc sort true false id setsid \
setpriv mount umount git find cut tr date stat nproc sed grep su ps $python xargs mktemp dd tee yes uname readlink df hostname mkfifo flock \
../lib/git-core/git-remote-http"

copy() { # a file with the libraries it is linked to, links followed
	for f in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
		mkdir -p "$root$(dirname "$f")"
		[ -e "$root$f" ] || cp -L "$f" "$root$f"
	done
}

tree() { # the machine's root file system: this one's programs
	root=$work/.root # a leading dot: no Go package of ours lies in it
	rm -rf "$root"
	mkdir -p "$root"/usr/bin "$root"/usr/lib "$root"/usr/lib64 "$root"/etc "$root"/test "$root"/usr/lib/git-core
	for d in bin lib lib64 sbin; do ln -s usr/$([ $d = sbin ] && echo bin || echo $d) "$root"/$d; done
	for p in $programs; do
		real=$(readlink -f "/usr/bin/$p") && [ -x "$real" ] || real=$(readlink -f "/bin/$p")
		[ -x "$real" ] || continue
		copy "$real"
		case $p in */*) ;; *) [ "$real" = "/usr/bin/$p" ] || ln -sf "$real" "$root/usr/bin/$p" ;; esac
	done
	ln -sf "$python" "$root/usr/bin/python3"
	ln -sf /usr/bin/git "$root/usr/lib/git-core/git"
	ln -sf git-remote-http "$root/usr/lib/git-core/git-remote-https"
	[ -d "/usr/lib/$python" ] && cp -a "/usr/lib/$python" "$root/usr/lib/" && rm -rf "$root/usr/lib/$python/test"
	mkdir -p "$root/usr/share/git-core/templates/hooks"
	echo x > "$root/usr/share/git-core/templates/hooks/sample.sample"
	vm_accounts "$root"
	cp /etc/nsswitch.conf /etc/ld.so.conf "$root/etc/" 2>/dev/null || true
	cp -r /etc/ld.so.conf.d "$root/etc/" 2>/dev/null || true
	vm_programs "$root/test"
	{ printf '%s' "$vm_prologue"; cat <<'INIT'; } > "$root/test/init"
only=$($bb sed -n 's/.*vmtest_run=\([^ ]*\).*/\1/p' /proc/cmdline)
run() { # name, level to be reached, tests, then how to run them
	name=$1 level=$2 tests=${only:-$3}; shift 3
	echo "=== vmtest $name"
	begun=$($bb date +%s)
	(cd /tmp && SALLYPORT_BOMBS=1 SALLYPORT_EXPECT="$level 2" "$@" /test/sandbox.test -test.short -test.v -test.timeout 10m -test.run "^Test($tests)") &&
		end=ok || { end=FAILED; bad=1; }
	echo "vmtest $name: $end in $(($($bb date +%s) - begun)) s"
}
bad=
echo; echo "vmtest: Linux $($bb uname -r)"
every='Machine|Run|WriteModes|WriteLayers|Protected|New|Secrets|Linked|Planted|Limits|Output|Nothing|Environment|Start|NoNetwork|Escapes|Every|Without|Below|Warm|Dead|Bombs|Probe|Options|Strict|NoDelete|Builds|Cell|Nested|Blank|Foreign'
identity='Machine|Run|WriteModes|New|Nested|Blank|Linked|Limits|Bombs|NothingIs|Escapes|Every|Without|Below|Probe|Cells'
fallback='Machine|RunReports|WriteModes|Limits|NothingIs|Escapes|Probe'
minimal='Machine|Without|Below|Probe|Run'
run "root" full "$every" $bb env
cg=/sys/fs/cgroup
echo "+memory +pids +cpu" > $cg/cgroup.subtree_control
$bb mkdir -p $cg/user; $bb chown 1000:1000 $cg/user $cg/user/cgroup.procs $cg/user/cgroup.subtree_control
as_user="/usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups $bb env HOME=/home/user"
run "user, delegated control group" full "$identity" $bb sh -c "echo \$\$ > $cg/user/cgroup.procs; exec $as_user \"\$@\"" sh
run "user, no control group" reduced "$fallback" $as_user
echo 0 > /proc/sys/kernel/unprivileged_userns_clone
run "user, user namespaces forbidden" minimal "$minimal" $as_user
echo 0 > /proc/sys/user/max_user_namespaces
run "root, no user namespaces" reduced "$minimal|Escapes" $bb env
run "user, no user namespaces" minimal "$minimal" $as_user
[ -z "$bad" ] && echo "vmtest: all ok"
$bb poweroff -f
INIT
	chmod 755 "$root/test/init"
	vm_disk disk.img 1200 "$root"
}

vm_kernel
tree
vm_initramfs
# What passed is in the log; here only what one wants to know.
vm_boot "${VM_RUN:+vmtest_run=$VM_RUN}" | sed -u 's|\r$||' | tee "$work/log" |
	grep -E --line-buffered '^vmtest|^ *--- (FAIL|SKIP)|^panic|: run .* killed' || true
grep -q '^vmtest: all ok' "$work/log" && exit
grep -E -B25 '^ *--- FAIL|^panic' "$work/log" | tail -150 >&2
echo "vmtest: not all passed, or the machine did not end within ${VM_TIMEOUT:-1200} s; the whole console is in $work/log" >&2
exit 1
