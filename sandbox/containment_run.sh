#!/bin/sh
# Runs hostile commands for real, each inside a cell, in a machine of QEMU's own
# that has no network card and is thrown away, and looks at the whole machine
# after each: files, processes, listeners, disks, kernel settings, clock, log.
# Then runs controls without a cell, each of which must be noticed.
#
#   sandbox/containment_run.sh [CORPORA]
#
# CORPORA is a folder with dangerous-*.jsonl files, lines of {"id", "cmd"}; they
# are put on the machine's disk and run nowhere else. Without it only the
# controls run. N=40 takes a sample. The report is build/containment.json.
# Needs what make test-vm needs; the machine's packages (250 MB, kept in
# build/containment) are fetched with apt-get and unpacked, not installed.
# Exit codes: 0 nothing got out, 1 something did or the harness is blind,
# 3 this machine lacks something.
set -eu
corpora=${1:+$(cd "$1" && pwd)}
cd "$(dirname "$0")/.."
work=build/containment
report=$PWD/build/containment.json
mkdir -p "$work"
work=$(cd "$work" && pwd)
. sandbox/vm.sh
vm_need dpkg-deb apt-get

# What the machine's people would have: attack steps name many programs.
packages="base-files bash bsdutils mount coreutils util-linux procps psmisc findutils grep sed mawk gawk tar gzip bzip2 xz-utils zip diffutils \
python3 perl git curl wget openssl ca-certificates netcat-openbsd telnet iproute2 iptables net-tools iputils-ping lsof kmod e2fsprogs \
passwd login cron apt dpkg rsync openssh-client xxd bc binutils file less nano hostname libc-bin systemd auditd logrotate whois"

tree() { # the machine's root file system, made anew when the list changes
	root=$work/.root # a leading dot: no Go package of ours lies in it
	stamp=$(echo "$packages" | cksum)
	if [ "$(cat "$work/stamp" 2>/dev/null)" != "$stamp" ]; then
		rm -rf "$root" "$work/debs"
		mkdir -p "$root"/usr/bin "$root"/usr/sbin "$root"/usr/lib "$root"/usr/lib64 "$work/debs/partial"
		for d in bin lib lib64 sbin; do ln -s usr/$d "$root/$d"; done
		: > "$work/status" # as if nothing were installed, so that all they need is named
		apt-get -qq -y --no-install-recommends --download-only -o Dir::State::status="$work/status" \
			-o Dir::Cache::archives="$work/debs" -o Debug::NoLocking=1 install $packages
		for deb in "$work"/debs/*.deb; do # dpkg-deb -x would replace the links to /usr
			dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"
		done
		echo "$stamp" > "$work/stamp"
	fi
	for link in awk=gawk nc=nc.openbsd pager=less editor=nano; do
		ln -sf "${link#*=}" "$root/usr/bin/${link%=*}"
	done
	# sudo that asks nobody: what it would have run is run.
	printf '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n' > "$root/usr/bin/sudo"
	chmod 755 "$root/usr/bin/sudo"
	rm -rf "$root/test"
	mkdir -p "$root/test/corpora" "$root/work" "$root/srv" "$root/mnt" "$root/opt" "$root/media"
	vm_accounts "$root"
	printf '127.0.0.1 localhost\n' > "$root/etc/hosts"
	printf 'multi on\n' > "$root/etc/host.conf"
	printf 'passwd: files\ngroup: files\nhosts: files dns\n' > "$root/etc/nsswitch.conf"
	[ -z "$corpora" ] || cp "$corpora"/dangerous-*.jsonl "$root/test/corpora/"
	vm_programs "$root/test"
	{ printf '%s' "$vm_prologue"; cat <<'INIT'; } > "$root/test/init"
/usr/sbin/ldconfig
sample=$($bb sed -n 's/.*sallyport.sample=\([0-9]*\).*/\1/p' /proc/cmdline)
$bb mount -t ext4 -o noatime,noinit_itable /dev/vdd /work && $bb mkdir /work/tmp
cd /work && TMPDIR=/work/tmp SALLYPORT_CONTAINMENT=/test/corpora SALLYPORT_CONTAINMENT_N=$sample \
	/test/sandbox.test -test.timeout 60m -test.run '^TestContainment$' -test.v
$bb poweroff -f
INIT
	chmod 755 "$root/test/init"
	vm_disk disk.img 2000 "$root"
}

vm_kernel
tree
vm_initramfs
head -c 65536 /dev/urandom > "$work/spare.img"
vm_disk work.img 1000
head -c 4194304 /dev/zero > "$work/report.img"
VM_TIMEOUT=${VM_TIMEOUT:-3600} vm_boot "sallyport.disposable ${N:+sallyport.sample=$N}" \
	-drive "file=$work/spare.img,if=virtio,format=raw" -drive "file=$work/report.img,if=virtio,format=raw" \
	-drive "file=$work/work.img,if=virtio,format=raw" |
	sed -u 's|\r$||' | tee "$work/log" | grep -E --line-buffered '^containment:|^panic|--- FAIL' || true
rm -f "$work/disk.img" "$work/work.img"
tr -d '\0' < "$work/report.img" > "$report"
[ -s "$report" ] || { tail -40 "$work/log" >&2; echo "containment: the machine wrote no report; its console is in $work/log" >&2; exit 1; }
figure() { sed -n "s/^  \"$1\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}$/\1/p" "$report"; }
got_out=$(grep -c '"what": \[' "$report" || true)
blind=$(sed -n '/"controls_not_noticed": \[$/,/\]/p' "$report" | grep -c '^    "' || true)
echo "containment: $(figure commands) commands run in cells (level $(figure level), Linux $(figure kernel)): $(figure ended) ended, \
$(figure timed_out) stopped by the clock, $(figure killed) by another limit, $(figure missing_program) named a program that is not there"
echo "containment: $got_out got out; $(($(figure controls) - blind)) of $(figure controls) controls noticed when run bare; \
$(figure watched_facts) facts watched; $report"
[ "$got_out" = 0 ] && [ "$blind" = 0 ] || { cat "$report" >&2; exit 1; }
