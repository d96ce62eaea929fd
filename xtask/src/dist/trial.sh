#!/bin/sh
# Installs, runs, upgrades and removes packages in a root, in its own namespaces, called by an unprivileged user.
#
#   trial.sh deb|rpm ROOT RELEASE OLD NEW [EMULATOR]
#
# RELEASE is the directory of dist; OLD and NEW are packages. Each step's output goes to ROOT/tmp/trial.
set -eu
kind=$1 root=$2 release=$3 old=$4 new=$5 emulator=${6-}

if [ -n "$emulator" ]; then
    # This namespace's own list of formats; the machine's is not touched. F: opened now, so that it works in every root.
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf ':aarch64:M::%s:%s:%s:F' "$magic" "$mask" "$emulator" >/proc/sys/fs/binfmt_misc/register
fi
mkdir -p "$root/dev" "$root/proc" "$root/sys" "$root/tmp/trial" "$root/tmp/release" "$root/srv"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t proc proc "$root/proc"
mount --bind "$release" "$root/tmp/release"

inside() { env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 chroot "$root" "$@"; }
files() { (cd "$root" && find . -xdev \( -path ./tmp -o -path ./var/log -o -path ./var/lib/dpkg -o -path ./usr/lib/sysimage -o -path ./var/lib/rpm -o -path ./root -o -path ./var/cache \) -prune -o ! -type d -print | sort); }
install() {
    case $kind in
        deb) inside dpkg -i "/tmp/release/$1" ;;
        rpm) rpm --root "$root" --ignorearch --nosignature -U "$root/tmp/release/$1" ;;
    esac
}
installed() {
    case $kind in
        deb) inside dpkg-query -W -f '${Version}\n' qd1 ;;
        rpm) rpm --root "$root" -q --qf '%{VERSION}\n' qd1 ;;
    esac
}

out=$root/tmp/trial
files >"$out/before"
install "$old" >"$out/install" 2>&1
installed >"$out/old"
inside qd1 --version >"$out/version"
install "$new" >"$out/upgrade" 2>&1
installed >"$out/new"
files >"$out/installed"
status=0
inside qd1 check --quick --size 512M /srv --json >"$out/report.json" 2>"$out/errors" || status=$?
echo "$status" >"$out/status"
inside qd1 history >"$out/history"
case $kind in
    deb) inside dpkg --purge qd1 >"$out/purge" 2>&1 ;;
    rpm) rpm --root "$root" -e qd1 >"$out/purge" 2>&1 ;;
esac
files >"$out/after"
# The script for systems without a package manager; a root with only the RPM package has no shell for it.
if [ "$kind" = deb ]; then
    inside sh /tmp/release/install.sh >"$out/script"
    inside /usr/local/bin/qd1 --version >>"$out/script"
fi
