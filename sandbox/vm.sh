# Shell functions for the scripts that run things in a machine of QEMU's own:
# Debian's cloud kernel, a disk made here, no network card. Sourced, not run.
# The caller sets $work, a folder for what is fetched and made.
#
# The kernel package is fetched with apt-get and unpacked, not installed. Nothing
# runs as root on the machine that builds, and no KVM is needed; where it works,
# VM_ACCEL=kvm is much faster than the default, tcg.

export PATH=$PATH:/sbin:/usr/sbin

vm_need() { # programs; exit 3 says that the machine lacks something
	for tool in qemu-system-x86_64 busybox mke2fs go "$@"; do
		command -v $tool >/dev/null || {
			echo "$(basename "$0"): $tool is missing: apt-get install qemu-system-x86 busybox-static e2fsprogs" >&2
			exit 3
		}
	done
	if ! file_is_static "$(command -v busybox)"; then
		echo "$(basename "$0"): busybox is linked to libraries: apt-get install busybox-static" >&2
		exit 3
	fi
}

file_is_static() { ! ldd "$1" 2>/dev/null | grep -q '=>'; }

vm_kernel() { # the newest cloud kernel of this Debian, unpacked once
	ls "$work"/kernel/boot/vmlinuz-* >/dev/null 2>&1 && return
	package=$(vm_package)
	[ -n "$package" ] || { apt-get -qq update && package=$(vm_package); }
	[ -n "$package" ] || { echo "$(basename "$0"): no cloud kernel package is known here: apt-get update" >&2; exit 3; }
	(cd "$work" && apt-get -q download "$package" && dpkg-deb -x "$package"_*.deb kernel)
}

vm_package() { apt-cache depends linux-image-cloud-amd64 2>/dev/null | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -1; }

vm_module() { # its name, the folder it goes to
	found=$(find "$work/kernel" -name "$1.ko" -o -name "$1.ko.xz" | head -1)
	case $found in
	*.xz) xz -dc "$found" > "$2/$1.ko" ;;
	*) cp "$found" "$2/" ;;
	esac
}

vm_programs() { # into $1: sallyport-cell and the sandbox's tests, static
	CGO_ENABLED=0 go build -ldflags '-s -w' -o "$1/sallyport-cell" ./cmd/sallyport-cell
	go test -c -tags netgo,osusergo -ldflags '-s -w -linkmode external -extldflags -static' -o "$1/sandbox.test" ./sandbox
	vm_module overlay "$1"
	cp "$(command -v busybox)" "$1/"
	chmod 755 "$1/sallyport-cell" "$1/sandbox.test" "$1/busybox"
}

vm_accounts() { # the machine's people, beneath the root file system $1
	printf 'root:x:0:0::/root:/bin/bash\ndaemon:x:1:1::/:/bin/false\nuser:x:1000:1000::/home/user:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n' > "$1/etc/passwd"
	printf 'root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n' > "$1/etc/group"
	echo 'root:*:1::::::' > "$1/etc/shadow" && chmod 600 "$1/etc/shadow"
	mkdir -p "$1/root" "$1/home/user" "$1/proc" "$1/sys" "$1/dev" "$1/tmp" "$1/run" "$1/var/tmp"
}

# What every machine's /test/init starts with. Files of a disk that an ordinary
# user made belong to that user, and are given to root first.
vm_prologue='#!/test/busybox sh
export PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root bb=/test/busybox
$bb mount -t proc proc /proc; $bb mount -t sysfs sys /sys; $bb mount -t devtmpfs dev /dev
$bb mkdir -p /dev/pts /dev/shm; $bb mount -t devpts devpts /dev/pts; $bb mount -t tmpfs shm /dev/shm
$bb mount -t cgroup2 cgroup2 /sys/fs/cgroup
$bb insmod /test/overlay.ko
$bb ifconfig lo 127.0.0.1 up 2>/dev/null
[ "$($bb stat -c %u /test/init)" = 0 ] || $bb find / -xdev -exec $bb chown -h 0:0 {} +
$bb chmod 1777 /tmp /var/tmp /dev/shm
$bb chown -R 1000:1000 /home/user; $bb chmod 700 /home/user
export SALLYPORT_TEST_CELL=/test/sallyport-cell
'

vm_disk() { # $work/$1 of $2 MiB, with what is in the folder $3 if it is given
	rm -f "$work/$1"
	truncate -s "$2M" "$work/$1"
	mke2fs -q -F -t ext4 -E root_owner=0:0 ${3:+-d "$3"} "$work/$1"
}

vm_initramfs() { # loads the disk's driver and goes over to it
	ram=$work/initramfs
	rm -rf "$ram"
	mkdir -p "$ram/bin" "$ram/dev" "$ram/root" "$ram/proc"
	cp "$(command -v busybox)" "$ram/bin/busybox"
	for m in virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci virtio_blk; do
		vm_module $m "$ram"
	done
	cat > "$ram/init" <<'INIT'
#!/bin/busybox sh
for again in 1 2 3; do # in no particular order: each needs some of the others
	for m in /*.ko; do /bin/busybox insmod $m 2>/dev/null; done
done
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t ext4 -o noatime,noinit_itable /dev/vda /root
exec /bin/busybox switch_root /root /test/init
INIT
	chmod 755 "$ram/init"
	(cd "$ram" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > "$work/initramfs.gz")
}

vm_boot() { # kernel parameters, then more options of QEMU; the console goes to standard output
	append=$1
	shift
	accel=${VM_ACCEL:-tcg}
	[ "$accel" = tcg ] && accel=tcg,thread=multi
	timeout "${VM_TIMEOUT:-1200}" qemu-system-x86_64 -m "${VM_MEMORY:-3072}" -smp 2 -accel "$accel" -cpu max \
		-nographic -no-reboot -nic none \
		-kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/initramfs.gz" \
		-drive "file=$work/disk.img,if=virtio,format=raw" "$@" \
		-append "console=ttyS0 quiet panic=-1 $append" </dev/null
}
