#!/usr/bin/env bash
# Builds the container image FROM scratch: the two static programs, certificates
# and empty folders. No registry is asked for anything. `make image` calls it after
# `make build`. Usage: build.sh [FILE.tar] [VERSION]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/sallyport.oci.tar} version=${2:-dev} user=65532:65532

if ! command -v buildah >/dev/null; then
	command -v apt-get >/dev/null || { echo "make image needs buildah: install it with this system's package manager" >&2; exit 1; }
	echo "installing buildah: it writes the image, without a daemon"
	sudo=; [ "$(id -u)" = 0 ] || sudo=sudo
	{ $sudo apt-get update -qq && $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends buildah >/dev/null; } ||
		{ echo "make image needs buildah, and apt-get could not install it" >&2; exit 1; }
fi

work=$(mktemp -d)
# A store of its own, of plain folders: nothing of the machine's is used or changed.
b() { buildah --storage-driver vfs --root "$work/store" --runroot "$work/run" "$@"; }
container=
trap 'test -z "$container" || b rm "$container" >/dev/null || true; rm -rf "$work"' EXIT

root=$work/root
mkdir -p "$root"/{bin,etc/ssl/certs,etc/sallyport,tmp,proc,dev,sys} "$work/empty"
cp "${BIN:-bin}"/{sallyport,sallyport-cell} "$root/bin/"
printf 'root:x:0:0:root:/:/bin/false\nsallyport:x:65532:65532:sallyport:/var/lib/sallyport:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\nsallyport:x:65532:\n' >"$root/etc/group"
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
else
	echo "no CA certificates on this machine (package ca-certificates): the image reaches no https issuer or webhook" >&2
fi
chmod 1777 "$root/tmp"

container=$(b from scratch)
b copy -q "$container" "$root" / >/dev/null
for dir in /var/lib/sallyport /work; do
	b copy -q --chown "$user" "$container" "$work/empty" "$dir" >/dev/null
done
b config --user "$user" --workingdir /work --port 7766 \
	--env SALLYPORT_STATE=/var/lib/sallyport/state --env SALLYPORT_CONFIG=/etc/sallyport --env HOME=/var/lib/sallyport --env PATH=/bin:/usr/bin:/usr/local/bin \
	--entrypoint '["/bin/sallyport"]' --cmd 'serve --http 127.0.0.1:7766' \
	--label org.opencontainers.image.title=sallyport --label org.opencontainers.image.version="$version" \
	--label org.opencontainers.image.licenses=Apache-2.0 "$container"
mkdir -p "$(dirname "$out")"
rm -f "$out"
b commit -q --disable-compression=false --timestamp "$(git log -1 --format=%ct 2>/dev/null || date +%s)" "$container" "oci-archive:$out:sallyport:$version" >/dev/null
echo "$out: $(du -h "$out" | cut -f1), load it with: podman load -i $out"
