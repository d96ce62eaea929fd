# Functions for the scripts of scenarios.

# send KIND NAME NUMBER STATUS: a line, followed by the contents of /tmp/out and /tmp/err.
send() {
    set -- "$1" "$2" "$3" "$4" "$(stat -c %s /tmp/out)" "$(stat -c %s /tmp/err)"
    { echo "$*"; cat /tmp/out /tmp/err; } >"$(ls /dev/vport*p* | head -n 1)"
}

# disk SERIAL: the path of QEMU's disk with this serial number, once the kernel has found it.
disk() {
    for try in $(seq 100); do
        for dir in /sys/block/*; do
            for file in "$dir/serial" "$dir/device/serial" "$dir/device/vpd_pg80"; do
                if grep -qs "$1" "$file"; then
                    echo "/dev/${dir##*/}"
                    return
                fi
            done
        done
        sleep 0.1
    done
    echo "no disk has the serial number $1" >&2
    return 1
}

# The devices that existed before the scenario created any.
ls /sys/block >/tmp/before

# device PREFIX: the path of the first new block device with this name prefix, once it exists.
device() {
    for try in $(seq 100); do
        for dir in /sys/block/"$1"*; do
            if [ -b "/dev/${dir##*/}" ] && ! grep -qx "${dir##*/}" /tmp/before; then
                echo "/dev/${dir##*/}"
                return
            fi
        done
        sleep 0.1
    done
    echo "no new device has a name beginning with $1" >&2
    return 1
}

# ext4 DEVICE: makes a filesystem on it, without work left for later.
ext4() {
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0,nodiscard "$1"
}

# sectors DEVICE: its size as device mapper counts it.
sectors() {
    blockdev --getsz "$1"
}
