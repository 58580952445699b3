# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with a lab, in one table."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-lab.md",
    [
        Message(
            id="lab-key",
            error=UserError,
            text="{path}: unknown key {key!r}; allowed: {allowed}",
            remedy="{hint}",
        ),
        Message(
            id="lab-value",
            error=UserError,
            text="{path}: {value!r} is not {wanted}",
            remedy="correct it in the topology file or on the command line",
        ),
        Message(
            id="lab-version",
            error=UserError,
            text="kubernetes_version: {value} has no pinned build; pinned: {versions}",
            remedy="choose one of these, or download a release: -e lab_source=release",
        ),
        Message(
            id="lab-node-twice",
            error=UserError,
            text="{path}: the name {name} is used twice",
            remedy="rename one of them",
        ),
        Message(
            id="lab-overlap",
            error=UserError,
            text="{path}: {value} overlaps {other}",
            remedy="choose another network, or omit the key, so that the lab chooses a free one",
        ),
        Message(
            id="lab-no-free-network",
            error=HostError,
            text="there is no free network for another lab: all of {tried} overlap networks of this host",
            remedy="set free networks in the topology file: node_cidr and pod_cidr",
        ),
        Message(
            id="lab-too-many-nodes",
            error=UserError,
            text="{count} nodes do not fit on host {host}: its network {network} has addresses for {room}",
            remedy="use fewer nodes, or more hosts: -e lab_hosts=COUNT",
        ),
        Message(
            id="lab-shares",
            error=UserError,
            text="the nodes of host {host} request {asked} of {what}; the host offers {has}",
            remedy="lower share, cpu or memory of some nodes",
        ),
        Message(
            id="lab-resize-node",
            error=UserError,
            text="resize: the lab has no node {name}; its nodes: {nodes}",
            remedy="choose one of these: -e lab_node=NAME",
        ),
        Message(
            id="lab-resize-nothing",
            error=UserError,
            text="resize: neither cpu nor memory is given for {name}",
            remedy="set at least one: ansible-playbook ballast.kube.lab_resize -e lab_node={name} -e lab_cpu=500m -e lab_memory=2Gi",
        ),
        Message(
            id="lab-name-taken",
            error=UserError,
            text="name: this host already has a lab {name} in another directory",
            remedy="choose another name (-e lab_name=NAME), or remove that lab: ansible-playbook ballast.kube.lab_down -e lab_dir={directory}",
        ),
        Message(
            id="lab-node-clash",
            error=UserError,
            text="node {node} needs the name {unit} on this host, which node {other} of the lab {lab} uses",
            remedy="rename the node, or choose another name for this lab: -e lab_name=NAME",
        ),
        Message(
            id="lab-fixed",
            error=UserError,
            text="{path}: {value} differs from the value of the running lab ({recorded}), which cannot be changed",
            remedy="remove the lab first (ansible-playbook ballast.kube.lab_down), or create a second lab: "
            "-e lab_name=NAME -e lab_dir=DIRECTORY",
        ),
        Message(
            id="lab-downgrade",
            error=UserError,
            text="kubernetes_version: {value} is older than {served}, which the lab's API server runs; an older API server cannot read all "
            "objects of a newer one",
            remedy="use {served} or later; for {value}, create a second lab (-e lab_name=NAME -e lab_dir=DIRECTORY), or remove this one first: "
            "ansible-playbook ballast.kube.lab_down",
        ),
        Message(
            id="lab-version-jump",
            error=UserError,
            text="kubernetes_version: {value} skips a minor version: the lab's API server runs {served} and can be upgraded by one minor version in a run",
            remedy="upgrade to the version between them first: -e lab_kubernetes_version={first}",
        ),
        Message(
            id="lab-node-skew",
            error=UserError,
            text="kubernetes_version: {value} is more than three minor versions newer than the kubelet of node {node}",
            remedy="upgrade the nodes first: -e lab_kubernetes_version={served}",
        ),
        Message(
            id="lab-version-machines",
            error=UserError,
            text="kubernetes_version: the lab cannot be upgraded to {value}: its virtual machines booted from a disk with the binaries of {served}",
            remedy="remove the lab (ansible-playbook ballast.kube.lab_down) and create it again; only a lab with target host can be upgraded",
        ),
        Message(
            id="lab-version-kubeadm",
            error=UserError,
            text="kubernetes_version: the lab cannot be upgraded to {value} by lab_up: kubeadm created it with {served}, and only kubeadm can upgrade it",
            remedy="upgrade it with kubeadm upgrade, with upgrade_to in its topology: docs/migrate-a-kubeadm-cluster.md; or remove the lab first: "
            "ansible-playbook ballast.kube.lab_down",
        ),
        Message(
            id="lab-tools",
            error=HostError,
            text="this host lacks {tools}",
            remedy="install them: apt-get install {packages}",
        ),
        Message(
            id="lab-python",
            error=HostError,
            text="{python} lacks the package cryptography, which signs the lab's certificates",
            remedy="install it for that Python: {python} -m pip install cryptography",
        ),
        Message(
            id="lab-kernel",
            error=HostError,
            text="this kernel lacks {feature}",
            remedy="{hint}",
        ),
        Message(
            id="lab-ip-family",
            error=HostError,
            text="IPv6 is off on this host",
            remedy="turn it on (sysctl -w net.ipv6.conf.all.disable_ipv6=0, or a boot without ipv6.disable=1), or choose ip_family: ipv4",
        ),
        Message(
            id="lab-mount-namespace",
            error=HostError,
            text="this process runs in a private mount namespace, so other processes would not see the nodes' namespaces",
            remedy="run it in the mount namespace of PID 1: nsenter --mount=/proc/1/ns/mnt -- ansible-playbook ballast.kube.lab_up; in a systemd "
            "service, remove PrivateTmp, ProtectSystem and other settings that create a mount namespace",
        ),
        Message(
            id="lab-dir-overlay",
            error=HostError,
            text="{directory}: this filesystem does not support overlay mounts, which the nodes' containers need",
            remedy="put the lab on a disk with ext4 or xfs: -e lab_dir=DIRECTORY; if this is a container, mount a volume there",
        ),
        Message(
            id="lab-dir-noexec",
            error=HostError,
            text="{directory}: this filesystem is mounted noexec, but the nodes' containers run programs from it",
            remedy="put the lab elsewhere: -e lab_dir=DIRECTORY; or mount it without noexec: mount -o remount,exec MOUNT-POINT",
        ),
        Message(
            id="lab-cache-noexec",
            error=HostError,
            text="{directory}: this filesystem is mounted noexec, but the lab's binaries run from the cache there",
            remedy="choose another cache: -e kubernetes_binaries_cache_dir=DIRECTORY; or mount it without noexec: mount -o remount,exec MOUNT-POINT",
        ),
        Message(
            id="lab-dir-write",
            error=HostError,
            text="{directory}: nothing can be written there",
            remedy="put the lab elsewhere: -e lab_dir=DIRECTORY; or free space there, or mount it read-write",
        ),
        Message(
            id="lab-firewall",
            error=HostError,
            text="this host's firewall drops packets {what}",
            remedy="allow this lab's traffic: {commands}",
        ),
        Message(
            id="lab-memory",
            error=HostError,
            text="{nodes} more nodes need about {needed} of memory; {available} is available",
            remedy="use fewer nodes, or free memory",
        ),
        Message(
            id="lab-disk",
            error=HostError,
            text="{directory}: {nodes} more nodes need about {needed} of disk; {available} is free",
            remedy="free space there, or put the lab elsewhere: -e lab_dir=DIRECTORY",
        ),
        Message(
            id="lab-none",
            error=UserError,
            text="{directory} contains no lab",
            remedy="choose the directory of a lab, or create one: ansible-playbook ballast.kube.lab_up -e lab_dir={directory}. Labs on this host: {labs}",
        ),
        Message(
            id="lab-lost",
            error=HostError,
            text="{directory} lacks the record of the lab {name}, although this host's list of labs points there",
            remedy="remove the remains of that lab: ansible-playbook ballast.kube.lab_down -e lab_dir={directory}",
        ),
        Message(
            id="lab-directory",
            error=HostError,
            text="{directory} is not a lab directory and contains other files",
            remedy="choose an empty or new directory for a new lab, or the directory of an existing lab. Labs on this host: {labs}",
        ),
        Message(
            id="lab-parts",
            error=HostError,
            text="{directory} contains parts of a lab, but not its record: {parts}",
            remedy="remove these parts, then the other files in {directory}: {commands}",
        ),
        Message(
            id="lab-record",
            error=HostError,
            text="{path} is not a lab record that this version can read",
            remedy="remove the lab with the version of the collection that created it",
        ),
        Message(
            id="lab-pods",
            error=PeerError,
            text="the check's pods are not running on every node",
            remedy="find the reason: kubectl --kubeconfig {kubeconfig} -n ballast-lab describe pods",
        ),
        Message(
            id="lab-connectivity",
            error=PeerError,
            text="{failed} of {total} connections failed",
            remedy="collect the lab's logs: ansible-playbook ballast.kube.lab_logs; read a node's rules in its network namespace: ip netns exec "
            "{netns} nft list ruleset",
        ),
        Message(
            id="lab-names",
            error=PeerError,
            text="pods on {node} reach the check's Service by its address, but not by its name",
            remedy="inspect CoreDNS: kubectl --kubeconfig {kubeconfig} -n kube-system describe pods -l k8s-app=kube-dns",
        ),
        Message(
            id="lab-addon",
            error=PeerError,
            text="the add-on {name} is not ready",
            remedy="inspect its pods: kubectl --kubeconfig {kubeconfig} -n kube-system describe {workload}",
        ),
        Message(
            id="lab-node",
            error=PeerError,
            text="the API refused to change Node {name}",
            remedy="correct its labels and taints in the topology, then run the same command again",
        ),
        Message(
            id="lab-node-drain",
            error=PeerError,
            text="node {name} could not be drained within {seconds} seconds, so it was not removed",
            remedy="find what blocks the eviction, often a PodDisruptionBudget: kubectl --kubeconfig {kubeconfig} get pdb -A; "
            "then run the same command again",
        ),
        Message(
            id="lab-no-pod-network",
            error=UserError,
            text="nodes.{name}: the pod network {network} has no free /24",
            remedy="set a larger pod_cidr, or give the nodes smaller ones",
        ),
        Message(
            id="lab-left",
            error=HostError,
            text="the lab {name} is removed, but {count} resources were left behind",
            remedy="end the processes that still use them, then run ansible-playbook ballast.kube.lab_down again",
        ),
        Message(
            id="lab-context-own",
            error=UserError,
            text="{path} is the lab's own kubeconfig",
            remedy="unset KUBECONFIG, or choose your own file: -e lab_kubeconfig_file=$HOME/.kube/config",
        ),
        Message(
            id="lab-context-taken",
            error=UserError,
            text="{path} has entries named {name} that do not belong to this lab",
            remedy="rename them: kubectl config rename-context {name} NAME; or use another file for the lab: -e lab_kubeconfig_file=FILE",
        ),
        Message(
            id="lab-context-form",
            error=UserError,
            text="{path} is not a kubeconfig",
            remedy="find the mistake: kubectl --kubeconfig {path} config view; or use another file for the lab: -e lab_kubeconfig_file=FILE",
        ),
        Message(
            id="lab-snapshot-taken",
            error=UserError,
            text="lab_snapshot: snapshot {name} already exists, and snapshots are never overwritten",
            remedy="choose another name, or remove it: ansible-playbook ballast.kube.lab_snapshot -e lab_snapshot={name} -e lab_snapshot_state=absent",
        ),
        Message(
            id="lab-snapshot-none",
            error=UserError,
            text="lab_snapshot: there is no snapshot {name}; existing: {names}",
            remedy="choose an existing one, or take one: ansible-playbook ballast.kube.lab_snapshot -e lab_snapshot=NAME",
        ),
        Message(
            id="lab-snapshot-machines",
            error=UserError,
            text="snapshots work only with target host: the lab {name} keeps its volumes (with kubeadm, also etcd) on disks of virtual machines",
            remedy="stop the lab, then copy the disks in the directory vms of the lab directory",
        ),
        Message(
            id="lab-snapshot-version",
            error=UserError,
            text="the snapshot {name} was taken with Kubernetes {taken_with}; the lab runs {version}, which may not be able to read all of its objects",
            remedy="keep this lab: an API server cannot return to an earlier minor version. To use {taken_with}, create a second lab: -e "
            "lab_name=NAME -e lab_dir=DIRECTORY -e lab_kubernetes_version={taken_with}",
        ),
        Message(
            id="lab-snapshot-lacks",
            error=UserError,
            text="the lab lacks {what} of the snapshot {name}: {missing}",
            remedy="add them first: ansible-playbook ballast.kube.lab_up with {option}; then run the same command again",
        ),
        Message(
            id="lab-snapshot-drained",
            error=UserError,
            text="an unfinished upgrade of the lab has drained {nodes}: a restore of such a snapshot would leave these nodes unschedulable",
            remedy="finish the upgrade first: ansible-playbook ballast.kube.lab_up",
        ),
        Message(
            id="lab-snapshot-running",
            error=HostError,
            text="these nodes are running, and their pods may write to volumes: {nodes}",
            remedy="use the playbooks ballast.kube.lab_snapshot and lab_restore, which stop them first",
        ),
        Message(
            id="lab-snapshot-space",
            error=HostError,
            text="snapshot {name} needs {needed} of disk at {directory}; {free} is free",
            remedy="free space there, or remove a snapshot: ansible-playbook ballast.kube.lab_snapshot -e lab_snapshot=NAME -e lab_snapshot_state=absent",
        ),
        Message(
            id="lab-snapshot-unreadable",
            error=HostError,
            text="{path} is not a snapshot that this version can read",
            remedy="remove it: ansible-playbook ballast.kube.lab_snapshot -e lab_snapshot=NAME -e lab_snapshot_state=absent",
        ),
        Message(
            id="lab-restore-unfinished",
            error=HostError,
            text="a restore of the snapshot {name} was interrupted: the lab's etcd and volumes may have different ages",
            remedy="run it again: ansible-playbook ballast.kube.lab_restore -e lab_snapshot={name} -e lab_dir={directory}",
        ),
    ],
)
