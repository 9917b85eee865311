#!/bin/sh
# Runs the cell tests on another kernel: Debian's cloud kernel in QEMU, with
# cgroup v2, Landlock ABI 2 and no network card, as root and as an ordinary
# user with and without a delegated control group.
#
#   sandbox/vmtest_run.sh [WORKDIR]      (default: build/vm)
#
# Needs qemu-system-x86, busybox-static, e2fsprogs and go; the kernel package is
# fetched with apt-get and unpacked, not installed. Nothing runs as root on the
# machine that builds, and no KVM is needed. VM_RUN narrows the tests (-test.run).
set -eu
cd "$(dirname "$0")/.."
work=${1:-build/vm}
mkdir -p "$work"
work=$(cd "$work" && pwd)
for tool in qemu-system-x86_64 busybox mke2fs go; do
	command -v $tool >/dev/null || PATH=$PATH:/sbin:/usr/sbin command -v $tool >/dev/null || {
		echo "vmtest: $tool is missing: apt-get install qemu-system-x86 busybox-static e2fsprogs" >&2
		exit 3
	}
done
export PATH=$PATH:/sbin:/usr/sbin

kernel() { # the newest cloud kernel of this Debian, unpacked once
	ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1 && return
	package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -1)
	[ -n "$package" ] || { echo "vmtest: no cloud kernel package is known here: apt-get update" >&2; exit 3; }
	(cd "$work" && apt-get -q download "$package" && dpkg-deb -x "$package"_*.deb kernel)
}

programs="bash sh cat ls echo mkdir rmdir rm mv cp ln chmod chown touch env sleep seq head tail wc sort true false id setsid \
setpriv mount umount git find cut tr date stat nproc sed grep su ps python3.11 xargs mktemp dd tee yes uname readlink df hostname mkfifo flock"

copy() { # a file with the libraries it is linked to, links followed
	for f in "$1" $(ldd "$1" 2>/dev/null | grep -o '/[^ ]*'); do
		mkdir -p "$root$(dirname "$f")"
		[ -e "$root$f" ] || cp -L "$f" "$root$f"
	done
}

tree() { # the machine's root file system
	root=$work/root
	rm -rf "$root"
	mkdir -p "$root"/usr/bin "$root"/usr/lib "$root"/usr/lib64 "$root"/etc "$root"/proc "$root"/sys "$root"/dev "$root"/tmp "$root"/run \
		"$root"/root "$root"/home/user "$root"/test "$root"/var/tmp "$root"/usr/lib/git-core
	for d in bin lib lib64 sbin; do ln -s usr/$([ $d = sbin ] && echo bin || echo $d) "$root"/$d; done
	for p in $programs; do
		real=$(readlink -f "$(which -a "$p" | grep -E '^/(usr/)?s?bin/' | head -1)") || continue
		[ -x "$real" ] || continue
		copy "$real"
		[ "$real" = "/usr/bin/$p" ] || ln -sf "$real" "$root/usr/bin/$p"
	done
	ln -sf python3.11 "$root/usr/bin/python3"
	ln -sf /usr/bin/git "$root/usr/lib/git-core/git"
	[ -d /usr/lib/python3.11 ] && cp -a /usr/lib/python3.11 "$root/usr/lib/" && rm -rf "$root"/usr/lib/python3.11/test
	mkdir -p "$root/usr/share/git-core/templates/hooks"
	echo x > "$root/usr/share/git-core/templates/hooks/sample.sample"
	printf 'root:x:0:0::/root:/bin/bash\ndaemon:x:1:1::/:/bin/false\nuser:x:1000:1000::/home/user:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n' > "$root/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' > "$root/etc/group"
	echo 'root:*:1::::::' > "$root/etc/shadow" && chmod 600 "$root/etc/shadow"
	cp /etc/nsswitch.conf /etc/ld.so.conf "$root/etc/" 2>/dev/null || true
	cp -r /etc/ld.so.conf.d "$root/etc/" 2>/dev/null || true
	cp /usr/bin/busybox "$root/usr/bin/busybox" 2>/dev/null || cp "$(command -v busybox)" "$root/usr/bin/busybox"
	cp "$(find "$work/kernel" -name overlay.ko)" "$root/test/"
	CGO_ENABLED=0 go build -ldflags '-s -w' -o "$root/test/sallyport-cell" ./cmd/sallyport-cell
	go test -c -tags netgo,osusergo -ldflags '-s -w -linkmode external -extldflags -static' -o "$root/test/sandbox.test" ./sandbox
	cat > "$root/test/init" <<'INIT'
#!/usr/bin/busybox sh
export PATH=/usr/bin:/bin HOME=/root
bb=/usr/bin/busybox
$bb mount -t proc proc /proc; $bb mount -t sysfs sys /sys; $bb mount -t devtmpfs dev /dev
$bb mkdir -p /dev/pts /dev/shm; $bb mount -t devpts devpts /dev/pts; $bb mount -t tmpfs shm /dev/shm
$bb mount -t cgroup2 cgroup2 /sys/fs/cgroup
$bb insmod /test/overlay.ko
$bb ifconfig lo 127.0.0.1 up 2>/dev/null
$bb chmod 1777 /tmp /var/tmp /dev/shm
$bb chown -R 1000:1000 /home/user; $bb chmod 700 /home/user
export SALLYPORT_TEST_CELL=/test/sallyport-cell
tests=$($bb sed -n 's/.*vmtest_run=\([^ ]*\).*/\1/p' /proc/cmdline)
run() { # name, then the command
	name=$1; shift
	echo "=== vmtest $name"
	(cd /tmp && "$@" /test/sandbox.test -test.short -test.v -test.timeout 15m -test.run "$tests") && echo "vmtest $name: ok" || { echo "vmtest $name: FAILED"; bad=1; }
}
bad=
$bb uname -r
run "root" $bb env
cg=/sys/fs/cgroup
echo "+memory +pids +cpu" > $cg/cgroup.subtree_control
$bb mkdir -p $cg/user; $bb chown 1000:1000 $cg/user $cg/user/cgroup.procs $cg/user/cgroup.subtree_control
as_user="/usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups $bb env HOME=/home/user"
run "user, delegated control group" $bb sh -c "echo \$\$ > $cg/user/cgroup.procs; exec $as_user \"\$@\"" sh
run "user, no control group" $as_user
echo 0 > /proc/sys/user/max_user_namespaces
tests='TestWithoutNamespaces|TestBelow|TestProbe|TestRunReports|TestRunStops|TestRunEnds'
run "root, no user namespaces" $bb env
run "user, no user namespaces" $as_user
[ -z "$bad" ] && echo "vmtest: all ok"
$bb poweroff -f
INIT
	chmod 755 "$root/test/init" "$root"/test/sandbox.test "$root"/test/sallyport-cell
	rm -f "$work/disk.img"
	mke2fs -q -t ext4 -d "$root" -E root_owner=0:0 "$work/disk.img" 1200M
}

initramfs() { # loads the disk's driver and goes over to it
	ram=$work/initramfs
	rm -rf "$ram"
	mkdir -p "$ram/bin" "$ram/dev" "$ram/root" "$ram/proc"
	cp "$(command -v busybox)" "$ram/bin/busybox"
	for m in virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk; do
		cp "$(find "$work/kernel" -name $m.ko)" "$ram/"
	done
	cat > "$ram/init" <<'INIT'
#!/bin/busybox sh
for again in 1 2 3; do # in no particular order: each needs some of the others
	for m in /*.ko; do /bin/busybox insmod $m 2>/dev/null; done
done
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t ext4 /dev/vda /root
exec /bin/busybox switch_root /root /test/init
INIT
	chmod 755 "$ram/init"
	(cd "$ram" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > "$work/initramfs.gz")
}

kernel
tree
initramfs
run=${VM_RUN:-'Test(Run|WriteModes|Protected|New|Secrets|Linked|Planted|Limits|Output|Nothing|Environment|Start|NoNetwork|Escapes|Every|Without|Below|Warm|Dead|Bombs|Probe|Options|Strict|NoDelete|Builds|Cell)'}
timeout "${VM_TIMEOUT:-3000}" qemu-system-x86_64 -m 3072 -smp 2 -accel tcg,thread=multi -cpu max -nographic -no-reboot -nic none \
	-kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/initramfs.gz" \
	-drive "file=$work/disk.img,if=virtio,format=raw" \
	-append "console=ttyS0 quiet panic=-1 vmtest_run=$run" </dev/null | tee "$work/log"
grep -q '^vmtest: all ok' "$work/log"
