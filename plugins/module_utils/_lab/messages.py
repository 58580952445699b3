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
            text="kubernetes_version: {value} cannot be built; there are {versions}",
            remedy="choose one of them, or download a release: -e lab_source=release",
        ),
        Message(
            id="lab-node-twice",
            error=UserError,
            text="{path}: two nodes have the name {name}",
            remedy="rename one of them",
        ),
        Message(
            id="lab-overlap",
            error=UserError,
            text="{path}: {value} overlaps {other}",
            remedy="choose another network, or omit the key: a free one is chosen",
        ),
        Message(
            id="lab-no-free-network",
            error=HostError,
            text="no free networks for another lab: all of {tried} overlap networks of this host",
            remedy="name free ones in the topology file: node_cidr and pod_cidr",
        ),
        Message(
            id="lab-too-many-nodes",
            error=UserError,
            text="{count} nodes on host {host}; its network {network} has room for {room}",
            remedy="use fewer nodes, or more hosts: -e lab_hosts=COUNT",
        ),
        Message(
            id="lab-shares",
            error=UserError,
            text="the nodes of host {host} ask for {asked} of {what}; it has {has} to give",
            remedy="lower share, cpu or memory of some nodes",
        ),
        Message(
            id="lab-resize-node",
            error=UserError,
            text="resize: the lab has no node {name}; its nodes: {nodes}",
            remedy="name one of them: -e lab_node=NAME",
        ),
        Message(
            id="lab-resize-nothing",
            error=UserError,
            text="resize: neither cpu nor memory is given for {name}",
            remedy="give one, or both: ansible-playbook ballast.kube.lab_resize -e lab_node={name} -e lab_cpu=500m -e lab_memory=2Gi",
        ),
        Message(
            id="lab-name-taken",
            error=UserError,
            text="name: the lab {name} is on this host already, in another directory",
            remedy="choose another name (-e lab_name=NAME), or remove that lab: ansible-playbook ballast.kube.lab_down -e lab_dir={directory}",
        ),
        Message(
            id="lab-node-clash",
            error=UserError,
            text="node {node} would be {unit} on this host, as node {other} of the lab {lab} is",
            remedy="rename the node, or choose another name for this lab: -e lab_name=NAME",
        ),
        Message(
            id="lab-fixed",
            error=UserError,
            text="{path}: {value} differs from what the running lab was made with ({recorded})",
            remedy="remove the lab first (ansible-playbook ballast.kube.lab_down), or bring up another one beside it: "
            "-e lab_name=NAME -e lab_dir=DIRECTORY",
        ),
        Message(
            id="lab-downgrade",
            error=UserError,
            text="kubernetes_version: {value} is older than {served}, which the lab's API server serves, and an older one cannot read all that a "
            "newer one stored",
            remedy="use {served} or later; to have {value}, bring up another lab beside it (-e lab_name=NAME -e lab_dir=DIRECTORY), or remove "
            "this one first: ansible-playbook ballast.kube.lab_down",
        ),
        Message(
            id="lab-version-jump",
            error=UserError,
            text="kubernetes_version: {value} skips a minor version; the lab's API server serves {served}, and goes from one minor version to the "
            "next",
            remedy="upgrade to the one between first: -e lab_kubernetes_version={first}",
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
            text="kubernetes_version: {value}; the lab's virtual machines have the programs of {served} on a disk that they were booted with",
            remedy="remove the lab (ansible-playbook ballast.kube.lab_down) and bring it up again; a lab on this host can be upgraded",
        ),
        Message(
            id="lab-version-kubeadm",
            error=UserError,
            text="kubernetes_version: {value}; the lab was made with {served} by kubeadm, which alone upgrades it",
            remedy="upgrade it by kubeadm upgrade, with upgrade_to in its topology: docs/migrate-a-kubeadm-cluster.md; or remove the lab first: "
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
            text="this process has a mount namespace of its own, in which the nodes' namespaces would be seen by no other program",
            remedy="run it in that of PID 1: nsenter --mount=/proc/1/ns/mnt -- ansible-playbook ballast.kube.lab_up; in a service of systemd, "
            "without PrivateTmp, ProtectSystem and what else gives it mounts of its own",
        ),
        Message(
            id="lab-dir-overlay",
            error=HostError,
            text="{directory}: no overlay can be mounted on this filesystem, and the nodes' containers need one each",
            remedy="put the lab on a disk, as ext4 or xfs: -e lab_dir=DIRECTORY; where this is a container, mount a volume there",
        ),
        Message(
            id="lab-dir-noexec",
            error=HostError,
            text="{directory}: no program can be started on this filesystem, and the nodes' containers have theirs there",
            remedy="put the lab elsewhere: -e lab_dir=DIRECTORY; or mount it without noexec: mount -o remount,exec MOUNT-POINT",
        ),
        Message(
            id="lab-firewall",
            error=HostError,
            text="this host's firewall drops packets {what}",
            remedy="let this lab pass: {commands}",
        ),
        Message(
            id="lab-memory",
            error=HostError,
            text="{nodes} more nodes need about {needed} of memory; {available} are available",
            remedy="use fewer nodes, or free memory",
        ),
        Message(
            id="lab-disk",
            error=HostError,
            text="{directory}: {nodes} more nodes need about {needed} of disk; {available} are free",
            remedy="free space there, or put the lab elsewhere: -e lab_dir=DIRECTORY",
        ),
        Message(
            id="lab-none",
            error=UserError,
            text="there is no lab in {directory}",
            remedy="name the directory of one, or bring one up: ansible-playbook ballast.kube.lab_up -e lab_dir={directory}. "
            "This host has: {labs}",
        ),
        Message(
            id="lab-lost",
            error=HostError,
            text="{directory} lacks the record of the lab {name}, which this host's list of labs has there",
            remedy="remove what is left of that lab, by its name: ansible-playbook ballast.kube.lab_down -e lab_dir={directory}",
        ),
        Message(
            id="lab-directory",
            error=HostError,
            text="{directory} is not the directory of a lab, and holds files of others",
            remedy="name a directory that is empty or does not exist yet for a new lab, or that of a lab. This host has: {labs}",
        ),
        Message(
            id="lab-record",
            error=HostError,
            text="{path} is not a record of a lab that this version can read",
            remedy="remove the lab with the version that made it",
        ),
        Message(
            id="lab-pods",
            error=PeerError,
            text="the pods that check the lab do not run on every node",
            remedy="kubectl --kubeconfig {kubeconfig} -n ballast-lab describe pods",
        ),
        Message(
            id="lab-connectivity",
            error=PeerError,
            text="{failed} of {total} connections failed",
            remedy="collect its logs: ansible-playbook ballast.kube.lab_logs; the rules of a node are in its network namespace: "
            "ip netns exec {netns} nft list ruleset",
        ),
        Message(
            id="lab-names",
            error=PeerError,
            text="pods on {node} reach the Service of the check by its address, and not by its name",
            remedy="see CoreDNS: kubectl --kubeconfig {kubeconfig} -n kube-system describe pods -l k8s-app=kube-dns",
        ),
        Message(
            id="lab-addon",
            error=PeerError,
            text="the add-on {name} is not ready",
            remedy="see its pods: kubectl --kubeconfig {kubeconfig} -n kube-system describe {workload}",
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
            text="node {name} could not be drained within {seconds} seconds, and stays",
            remedy="see what holds its pods, often a PodDisruptionBudget: kubectl --kubeconfig {kubeconfig} get pdb -A; "
            "then run the same command again",
        ),
        Message(
            id="lab-no-pod-network",
            error=UserError,
            text="nodes.{name}: no /24 of the pod network {network} is left",
            remedy="name a larger pod_cidr, or give the nodes smaller ones",
        ),
        Message(
            id="lab-left",
            error=HostError,
            text="the lab {name} is removed, but {count} resources were left behind",
            remedy="end what still uses them, then run ansible-playbook ballast.kube.lab_down again",
        ),
        Message(
            id="lab-context-own",
            error=UserError,
            text="{path} is the lab's own kubeconfig",
            remedy="unset KUBECONFIG, or name your own: -e lab_kubeconfig_file=$HOME/.kube/config",
        ),
        Message(
            id="lab-context-taken",
            error=UserError,
            text="{path} has entries {name} that are not this lab's",
            remedy="rename them: kubectl config rename-context {name} NAME; or give the lab another file: -e lab_kubeconfig_file=FILE",
        ),
        Message(
            id="lab-context-form",
            error=UserError,
            text="{path} is no kubeconfig",
            remedy="see what is wrong: kubectl --kubeconfig {path} config view; or give the lab another file: -e lab_kubeconfig_file=FILE",
        ),
        Message(
            id="lab-snapshot-taken",
            error=UserError,
            text="lab_snapshot: there is a snapshot {name}, which is not overwritten",
            remedy="choose another name, or remove it: ansible-playbook ballast.kube.lab_snapshot -e lab_snapshot={name} -e lab_snapshot_state=absent",
        ),
        Message(
            id="lab-snapshot-none",
            error=UserError,
            text="lab_snapshot: there is no snapshot {name}; there are: {names}",
            remedy="name one of them; a snapshot is taken by ansible-playbook ballast.kube.lab_snapshot -e lab_snapshot=NAME",
        ),
        Message(
            id="lab-snapshot-machines",
            error=UserError,
            text="the lab {name} has virtual machines, whose disks hold the volumes and, with kubeadm, etcd; snapshots are of labs on this host",
            remedy="stop the lab, and copy the disks in vms of its directory",
        ),
        Message(
            id="lab-snapshot-version",
            error=UserError,
            text="the snapshot {name} was taken with Kubernetes {taken_with}; the lab runs {version}, which may not read all of its objects",
            remedy="keep this lab as it is: no API server goes back to an earlier minor version. For what needs {taken_with}, bring up another lab "
            "beside it: -e lab_name=NAME -e lab_dir=DIRECTORY -e lab_kubernetes_version={taken_with}",
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
            text="an upgrade of the lab has drained {nodes} and did not end: a restore of such a snapshot would bring nodes back that take no pods",
            remedy="let the upgrade end first: ansible-playbook ballast.kube.lab_up",
        ),
        Message(
            id="lab-snapshot-running",
            error=HostError,
            text="nodes run, and their pods write to volumes: {nodes}",
            remedy="use the playbooks ballast.kube.lab_snapshot and lab_restore, which stop them first",
        ),
        Message(
            id="lab-snapshot-space",
            error=HostError,
            text="snapshot {name} needs {needed} of disk at {directory}; {free} are free",
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
            text="a restore of the snapshot {name} was cut off: etcd and volumes of the lab may be of different times",
            remedy="run it again: ansible-playbook ballast.kube.lab_restore -e lab_snapshot={name} -e lab_dir={directory}",
        ),
    ],
)
