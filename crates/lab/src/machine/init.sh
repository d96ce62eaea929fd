#!/bin/sh
# The guest's first process: runs every scenario in turn, sends the results through the port, and powers off.
export PATH=/bin:/sbin LD_LIBRARY_PATH=/lib64 HOME=/tmp DM_DISABLE_UDEV=1 LVM_SUPPRESS_FD_WARNINGS=1
mkdir -p /proc /sys /dev /tmp /mnt /run
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts
mount -t devpts pts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
dmesg -n 1
for module in $(cat /lab/modules); do modprobe "$module"; done
. /lab/helpers
for name in $(cat /lab/order); do
    echo "lab: $(cut -d ' ' -f 1 /proc/uptime) s: $name" >/dev/console
    # A run that hangs must not prevent the others.
    timeout -s KILL "$(cat /lab/seconds)" sh "/lab/$name" >/tmp/log 2>&1
    status=$?
    mv /tmp/log /tmp/out
    : >/tmp/err
    send scenario "$name" 0 "$status"
done
: >/tmp/out
send end - 0 0
# Nothing is synced, unmounted or ended.
[ ! -e /lab/cut ] || echo b >/proc/sysrq-trigger
sync
poweroff -f
