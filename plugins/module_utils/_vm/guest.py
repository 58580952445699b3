# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What our virtual machines have besides Debian's packages: files, and masked units for a fast start.

A machine reads its identity from its kernel command line, the only channel that every engine has:

    ballast.address=10.97.0.101/24  ballast.gateway=10.97.0.1   its network
    ballast.ssh_key=AAAA...                                     the ed25519 key that may log in as root
    ballast.seed=/dev/vdd                                       a disk that is a tar archive with the machine's ssh host key
    ballast.disk=/dev/vdb:/opt/ballast/bin                      a read-only disk and where it is mounted; repeatable
    ballast.module=virtio_net                                   a kernel module that must be there first; repeatable

A fork takes about 25 ms under User Mode Linux, so the script is plain shell with few commands, and units that a lab does not
need are masked: 7 s from start to ssh, while a plain Debian takes 21 s.
"""

from __future__ import annotations

from dataclasses import dataclass

PROBE = "/usr/lib/ballast/vm-probe"  # run as init, it reports that the engine boots
PROBE_MARK = "ballast: this engine boots"
SEED_KEY = "ssh_host_ed25519_key"  # in the seed; its public part has the suffix .pub
HOST_KEY = f"/etc/ssh/{SEED_KEY}"
MODULES_MOUNT = "/usr/lib/modules"


@dataclass(frozen=True)
class GuestFile:
    path: str
    content: str
    mode: int = 0o644


@dataclass(frozen=True)
class GuestLink:
    path: str
    to: str


_SETUP = """\
#!/bin/sh
# Sets this virtual machine up from its kernel command line.
set -eu
read -r cmdline </proc/cmdline
address= gateway= key= seed= disks= modules=
for word in $cmdline; do
  case $word in
    ballast.address=*) address=${word#*=} ;;
    ballast.gateway=*) gateway=${word#*=} ;;
    ballast.ssh_key=*) key=${word#*=} ;;
    ballast.seed=*) seed=${word#*=} ;;
    ballast.disk=*) disks="$disks ${word#*=}" ;;
    ballast.module=*) modules="$modules ${word#*=}" ;;
  esac
done
for disk in $disks; do
  [ -d "${disk#*:}" ] || mkdir -p "${disk#*:}"
  mount -t ext4 -o ro "${disk%%:*}" "${disk#*:}"
done
for module in $modules; do
  modprobe "$module"
done
mkdir -p /run/ballast
# Made by who made this machine, so that it is known before the first connection.
tar --extract --file="$seed" --directory=/run/ballast
echo "ssh-ed25519 $key ballast" >/run/ballast/authorized_keys
# Links without a device are the kernel's own: lo, and dummy0 or sit0 where their drivers are built in.
link=
for path in /sys/class/net/*; do
  if [ -e "$path/device" ]; then
    link=${path##*/}
  fi
done
{
  echo "link set lo up"
  echo "link set $link up"
  echo "address replace $address dev $link"
  [ -z "$gateway" ] || echo "route replace default via $gateway"
} | ip -batch -
# cAdvisor, a part of the kubelet, reads the clock speed, which the processors of User Mode Linux do not tell.
cpuinfo=$(cat /proc/cpuinfo)
case $cpuinfo in
  *"cpu MHz"*) ;;
  *)
    printf '%s\\ncpu MHz\\t\\t: 2000.000\\n\\n' "$cpuinfo" >/run/ballast/cpuinfo
    mount --bind /run/ballast/cpuinfo /proc/cpuinfo
    ;;
esac
"""

# Writes to the kernel's log, as the terminal's buffer is lost when the machine ends.
_PROBE = f"""\
#!/bin/sh
[ -c /dev/kmsg ] || /usr/bin/busybox mount -t devtmpfs dev /dev
echo "<0>{PROBE_MARK}" >/dev/kmsg
exec /usr/bin/busybox poweroff -f
"""

_SETUP_UNIT = """\
[Unit]
Description=Set this virtual machine up from its kernel command line
DefaultDependencies=no
Before=systemd-modules-load.service systemd-udevd.service ssh.service network.target sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/lib/ballast/vm-setup
StandardError=journal+console
"""

_SSH_UNIT = """\
[Unit]
Description=OpenSSH server
After=ballast-vm-setup.service
[Service]
Type=notify
RuntimeDirectory=sshd
RuntimeDirectoryMode=0755
ExecStart=/usr/sbin/sshd -D
KillMode=process
Restart=always
"""

_SSHD_CONFIG = f"""\
HostKey {HOST_KEY}
AuthorizedKeysFile /run/ballast/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 100
MaxSessions 100
Subsystem sftp /usr/lib/openssh/sftp-server
"""

FILES = (
    GuestFile("/usr/lib/ballast/vm-setup", _SETUP, 0o755),
    GuestFile(PROBE, _PROBE, 0o755),
    GuestFile("/etc/systemd/system/ballast-vm-setup.service", _SETUP_UNIT),
    GuestFile("/etc/systemd/system/ssh.service", _SSH_UNIT),
    GuestFile("/etc/ssh/sshd_config", _SSHD_CONFIG),
    GuestFile("/etc/systemd/journald.conf.d/ballast.conf", "[Journal]\nStorage=volatile\nRuntimeMaxUse=32M\n"),
    GuestFile("/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n"),
    GuestFile("/etc/fstab", ""),
    # A kubelet copies it into pods, and starts no pod without it. The machine resolves no names.
    GuestFile("/etc/resolv.conf", ""),
    # Not the mirror from which the image was built, whose address may hold a password.
    GuestFile("/etc/apt/sources.list", "deb http://deb.debian.org/debian trixie main\n"),
    # Empty, not absent: otherwise the first boot would enable units by their presets. The id comes from the command line.
    GuestFile("/etc/machine-id", ""),
)

_MASKED = (
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dpkg-db-backup.timer",
    "getty.target",
    "ldconfig.service",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-sysusers.service",
    "systemd-udev-load-credentials.service",
    "systemd-udev-trigger.service",
    "systemd-update-done.service",
    "systemd-update-utmp.service",
)
_MASKED_GENERATORS = (
    "debug",
    "fstab",
    "getty",
    "gpt-auto",
    "hibernate-resume",
    "rc-local",
    "run",
    "ssh",
    "system-update",
    "sysv",
    "tpm2",
)
LINKS = (
    *(GuestLink(f"/etc/systemd/system/{unit}", "/dev/null") for unit in _MASKED),
    *(
        GuestLink(f"/etc/systemd/system-generators/systemd-{name}-generator", "/dev/null")
        for name in _MASKED_GENERATORS
    ),
    GuestLink(HOST_KEY, f"/run/ballast/{SEED_KEY}"),
    GuestLink(f"{HOST_KEY}.pub", f"/run/ballast/{SEED_KEY}.pub"),
    GuestLink("/etc/systemd/system/default.target", "/usr/lib/systemd/system/multi-user.target"),
    GuestLink("/etc/systemd/system/sysinit.target.wants/ballast-vm-setup.service", "../ballast-vm-setup.service"),
    GuestLink("/etc/systemd/system/multi-user.target.wants/ssh.service", "../ssh.service"),
)

# Removed before the files are written: files that differ between builds, and units enabled by packages.
REMOVED = (
    "/etc/.pwd.lock",
    "/etc/group-",
    "/etc/gshadow-",
    "/etc/hostname",
    "/etc/machine-id",
    "/etc/passwd-",
    "/etc/resolv.conf",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ecdsa_key.pub",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_ed25519_key.pub",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_rsa_key.pub",
    "/etc/subgid-",
    "/etc/subuid-",
    "/var/lib/dbus/machine-id",
    "/var/lib/dpkg/available",
    "/var/lib/dpkg/diversions-old",
    "/var/lib/dpkg/status-old",
    "/var/lib/systemd/random-seed",
)
EMPTIED = (
    "/etc/apt/sources.list.d",
    "/etc/systemd/system",
    "/tmp",
    "/var/cache/apt",
    "/var/cache/debconf",
    "/var/cache/ldconfig",
    "/var/lib/apt/lists",
    "/var/log",
)
