#!/bin/sh
# Become a machine of the fleet: host.sh PLACE NAME, in namespaces of its own (unshare), the cgroups of PLACE's machine as its root.
# PLACE holds upper, work and root; what the machine writes goes to upper, what it reads besides is this machine's.
set -eu
place=$1 name=$2
hierarchies=$(awk '$3 ~ /^cgroup2?$/ && $2 ~ "^/sys/fs/cgroup" { print $2, $3, $4 }' /proc/self/mounts)

mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/root"
cd "$place/root"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mkdir -p run/sshd run/lock
[ "$hierarchies" = "${hierarchies#/sys/fs/cgroup cgroup2}" ] && mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
echo "$hierarchies" | while read -r path type options; do
    mkdir -p ".$path"
    if [ "$type" = cgroup2 ]; then
        mount -t cgroup2 cgroup2 ".$path"
    else
        # Of its options, those that name the hierarchy: a controller, or name=.
        mount -t cgroup -o "$(echo "$options" | tr , '\n' | grep -vxE 'rw|ro|relatime|nosuid|nodev|noexec' | paste -sd,)" cgroup ".$path"
    fi
done
hostname "$name"
exec chroot . /usr/bin/catatonit -- /usr/bin/runsvdir -P /etc/service
