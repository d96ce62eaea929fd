#!/bin/sh
# Installs qd1: picks the archive for this machine, verifies its checksum and
# copies one file.
#
#   sh install.sh [--from URL-OR-DIRECTORY] [--to DIRECTORY]
#
# --from  the release: a directory, or a URL without a trailing slash
#         [default: $QD1_FROM, else the directory of this script; required if
#         the script is read from a pipe]
# --to    the directory for the binary
#         [default: /usr/local/bin for root, else ~/.local/bin]
set -eu

fail() { printf 'install.sh: %s\n' "$1" >&2; exit 1; }

from=${QD1_FROM-}
to=
while [ $# -gt 0 ]; do
    case $1 in
        --from) [ -n "${2-}" ] || fail '--from needs a directory or a URL'; from=$2; shift 2 ;;
        --to) [ -n "${2-}" ] || fail '--to needs a directory'; to=$2; shift 2 ;;
        -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0" 2>/dev/null || true; exit 0 ;;
        *) fail "unknown argument $1; for help: sh install.sh --help" ;;
    esac
done

[ "$(uname -s)" = Linux ] || fail "qd1 runs only on Linux, and this is $(uname -s)"
case $(uname -m) in
    x86_64 | amd64) triple=x86_64-unknown-linux-musl ;;
    aarch64 | arm64) triple=aarch64-unknown-linux-musl ;;
    *) fail "there is no binary for $(uname -m); build it with: cargo install --path crates/app" ;;
esac
if [ -z "$to" ]; then
    if [ "$(id -u)" = 0 ]; then to=/usr/local/bin; else to=${HOME:?}/.local/bin; fi
fi

if [ -z "$from" ]; then
    # A script that is read from a pipe ($0 is then the shell's name) has no directory, and the current directory may
    # hold anybody's files.
    case $0 in
        *.sh) [ ! -f "$0" ] || from=$(dirname -- "$0") ;;
    esac
    [ -n "$from" ] || fail 'the script is read from a pipe, so name the release: --from ADDRESS-OR-DIRECTORY'
    [ -f "$from/SHA256SUMS" ] ||
        fail "no release next to this script (no SHA256SUMS in $from); name one: --from ADDRESS-OR-DIRECTORY"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

get() {
    case $from in
        http://* | https://*)
            if command -v curl >/dev/null; then curl -fsSL -o "$work/$1" "$from/$1"
            elif command -v wget >/dev/null; then wget -q -O "$work/$1" "$from/$1"
            else fail 'downloading needs curl or wget; install one of them'; fi ;;
        *) [ -f "$from/$1" ] && cp -- "$from/$1" "$work/$1" ;;
    esac || fail "cannot get $1 from $from; name the release with --from"
}

get SHA256SUMS
name=$(sed -n "s/^[0-9a-f]*  \(qd1-.*-$triple\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | tail -n 1)
[ -n "$name" ] || fail "SHA256SUMS in $from lists no archive for $triple; name another release with --from"
get "$name"
(cd "$work" && grep "  $name\$" SHA256SUMS | sha256sum -c - >/dev/null 2>&1) ||
    fail "the checksum of $name does not match SHA256SUMS, so it was damaged or changed; nothing was installed"

tar -xzf "$work/$name" -C "$work"
mkdir -p -- "$to"
[ ! -d "$to/qd1" ] || fail "$to/qd1 is a directory; nothing was installed"
# Renamed into place, because an older binary may be running.
fresh=$(mktemp "$to/.qd1.XXXXXX")
trap 'rm -rf "$work" "$fresh"' EXIT
cp -- "$work/${name%.tar.gz}/qd1" "$fresh"
chmod 755 "$fresh"
# Tried in its final directory, because the directory for temporary files may be mounted noexec.
[ -x "$fresh" ] || fail "no program can run in $to, which is probably mounted noexec; name another directory with --to"
"$fresh" --version >/dev/null || fail 'the binary does not run on this machine; nothing was installed'
mv -f -- "$fresh" "$to/qd1"
printf 'installed %s (%s)\n' "$to/qd1" "$("$to/qd1" --version)"
case :$PATH: in
    *:"$to":*) printf 'now run: qd1 DIRECTORY-ON-THE-DISK\n' ;;
    *) printf 'now run: %s DIRECTORY-ON-THE-DISK   (%s is not in PATH)\n' "$to/qd1" "$to" ;;
esac
