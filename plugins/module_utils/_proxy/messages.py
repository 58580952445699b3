# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with a snapshot, a node or a KubeProxyConfiguration, in one table."""

from __future__ import annotations

from .._core.errors import HostError, Message, Messages, UserError

_AS_SERVED = "take the objects as the API server gives them: kubectl get services,endpointslices,nodes -A -o json"

MESSAGES = Messages(
    "docs/service-rules.md",
    [
        Message(
            id="rules-snapshot-json",
            error=UserError,
            text="snapshot is no JSON: {reason}",
            remedy=f"write it anew: {_AS_SERVED[_AS_SERVED.index('kubectl') :]}",
        ),
        Message(
            id="rules-snapshot-kind",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy=_AS_SERVED,
        ),
        Message(
            id="rules-snapshot-page",
            error=UserError,
            text="{path}: the list goes on: metadata.continue is set, so this is one page of several",
            remedy="ask for all of it: kubectl get --chunk-size=0",
        ),
        Message(
            id="rules-object-field",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy=_AS_SERVED,
        ),
        Message(
            id="rules-object-contradiction",
            error=UserError,
            text="{path}: {value} cannot be: {reason}",
            remedy=_AS_SERVED,
        ),
        Message(
            id="rules-object-twice",
            error=UserError,
            text="{path}: there is one of that name already",
            remedy="give each object once",
        ),
        Message(
            id="rules-node-missing",
            error=UserError,
            text="node_name: {name} is not among the {count} Nodes of the snapshot",
            remedy="name one of them: {names}",
        ),
        Message(
            id="rules-node-option",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="name the node as its Node object is called, and list its addresses as in 192.0.2.10 or 2001:db8::10",
        ),
        Message(
            id="rules-config-key",
            error=UserError,
            text="{path}: KubeProxyConfiguration has no such key",
            remedy="{hint}",
        ),
        Message(
            id="rules-config-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="see KubeProxyConfiguration in kubeproxy.config.k8s.io/v1alpha1",
        ),
        Message(
            id="rules-config-detector",
            error=UserError,
            text="{path}: detectLocalMode {mode} cannot work for IPv{family}: {reason}",
            remedy="{remedy}",
        ),
        Message(
            id="rules-config-open-node-ports",
            error=UserError,
            text="nodePortAddresses: no address of IPv{family} is named, so that every one of the node's serves node ports",
            remedy="name a network of IPv{family} too",
        ),
        Message(
            id="rules-config-localhost",
            error=UserError,
            text="nodePortAddresses: {value} asks for node ports on loopback, which {backend} rules do not serve for IPv{family}",
            remedy="use an address of the node; only iptables serves them on loopback, for IPv4, with iptables.localhostNodePorts",
        ),
        Message(
            id="rules-config-bind-address",
            error=UserError,
            text="bindAddress: {value} is not the primary address of the Node, {primary}, which the rules go by",
            remedy="remove bindAddress, or start the kubelet with --node-ip={value}",
        ),
        Message(
            id="rules-snapshot-where",
            error=UserError,
            text="a snapshot must be given, in one of two ways: snapshot or snapshot_path",
            remedy="kubectl get services,endpointslices,nodes -A -o json > FILE on the node, and snapshot_path: FILE",
        ),
        Message(
            id="rules-snapshot-absent",
            error=UserError,
            text="snapshot_path: there is no file {path} on this node",
            remedy="copy it there before (ansible.builtin.copy), or give the content as snapshot",
        ),
        Message(
            id="rules-snapshot-needed",
            error=UserError,
            text="{wanted} needs a snapshot of the cluster",
            remedy="give snapshot or snapshot_path, and node_name",
        ),
        Message(
            id="rules-node-name",
            error=UserError,
            text="node_name: a snapshot is read for one node, and none is named",
            remedy="give the name of this node's Node object",
        ),
        Message(
            id="rules-table-taken",
            error=UserError,
            text="table: {table} is kube-proxy's own, which would remove what it does not know",
            remedy="choose another name, or leave it out",
        ),
        Message(
            id="rules-priority",
            error=UserError,
            text="priority_offset: {value} is not within -{most} to {most}",
            remedy="a few steps suffice: -1 comes before kube-proxy's rules, 1 after them",
        ),
        Message(
            id="rules-packet",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="correct it; a packet is source, destination, port, protocol",
        ),
        Message(
            id="rules-dump-absent",
            error=UserError,
            text="ruleset_path: there is no file {path} on this node",
            remedy="write it there before: nft list ruleset > {path}",
        ),
        Message(
            id="rules-dump-line",
            error=UserError,
            text="line {line} of the dump is of none of iptables-save, ipvsadm-save, ipset save and ip -j address",
            remedy="write the dump anew, each tool's output after the other's, and nothing else",
        ),
        Message(
            id="rules-hns-key",
            error=UserError,
            text="hns: unknown key {key}; allowed: {allowed}",
            remedy="correct or remove it",
        ),
        Message(
            id="rules-hns-value",
            error=UserError,
            text="hns.{path}: {value} is not {wanted}",
            remedy="give it as HNS shows it",
        ),
        Message(
            id="rules-duplicate",
            error=UserError,
            text="{destination} is claimed by two Services: {winner} has it, {loser} has not",
            remedy="change one of the Services",
        ),
        Message(
            id="rules-setting-absent",
            error=HostError,
            text="this kernel has no setting {name}, which the backend needs",
            remedy="load the module that it belongs to (ip_vs for net.ipv4.vs), or choose another backend",
        ),
        Message(
            id="rules-record",
            error=HostError,
            text="{path} is not a record of kernel settings that can be read",
            remedy="remove it; settings that were changed then stay as they are",
        ),
        Message(
            id="rules-not-held",
            error=HostError,
            text="the kernel does not hold the {backend} rules that it took",
            remedy="see which program changes them too (a kube-proxy that runs?), end it, and run this again",
        ),
    ],
)
