# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about snapshots, nodes, KubeProxyConfiguration and dumps."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, UserError

_AS_SERVED = "take the objects as the API server gives them: kubectl get services,endpointslices,nodes -A -o json"

MESSAGES = Messages(
    "docs/reference/errors-service-rules.md",
    [
        Message(
            id="rules-snapshot-json",
            error=UserError,
            text="snapshot is not JSON: {reason}",
            remedy=f"write it again: {_AS_SERVED[_AS_SERVED.index('kubectl') :]}",
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
            id="rules-object-skipped",
            error=UserError,
            text="{path}: {value} is not {wanted}; kube-proxy passes over it, and so do the rules",
            remedy="correct or remove it in the object",
        ),
        Message(
            id="rules-object-skipped-more",
            error=UserError,
            text="{count} more values of objects are passed over",
            remedy="correct those that are listed, and run this again",
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
            remedy="use an address of the node; only iptables serves them on loopback, for IPv4, with iptables.localhostNodePorts; "
            "kube-proxy 1.37 has a proxy of its own for nftables and TCP, with the gate KubeProxyNFTablesLocalhostNodePorts",
        ),
        Message(
            id="rules-config-bind-address",
            error=UserError,
            text="bindAddress: {value} is not the primary address of the Node, {primary}, which the rules go by",
            remedy="remove bindAddress, or start the kubelet with --node-ip={value}",
        ),
        Message(
            id="rules-config-gate-unknown",
            error=UserError,
            text="featureGates.{name}: no gate of this name is known to change the rules of kube-proxy 1.{oldest} to 1.{newest}; "
            "the rules are taken as without it",
            remedy="{hint}",
        ),
        Message(
            id="rules-config-gate-refused",
            error=UserError,
            text="featureGates.{name}: it cannot be {value}: {reason}, and does not start with this setting",
            remedy="remove the gate from featureGates",
        ),
        Message(
            id="rules-config-gate-mode",
            error=UserError,
            text="featureGates.{name} is false: kube-proxy does not run mode {backend}",
            remedy="set it to true, or choose another mode",
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
            remedy="write it there before: ({command}) > {path}",
        ),
        Message(
            id="rules-dump-line",
            error=UserError,
            text="line {line} of the dump is of no known tool, or is not where that tool prints it: {text}",
            remedy="save it again: the output of nft list ruleset, iptables-save, ip6tables-save, ipvsadm-save -n, ipset save, ip -j address",
        ),
        Message(
            id="rules-dump-twice",
            error=UserError,
            text="line {line} of the dump: {what} is there a second time, with other rules",
            remedy="save each part once, or keep one of the two",
        ),
        Message(
            id="rules-dump-part",
            error=UserError,
            text="{part}: not in the dump, and decides what becomes of the packet",
            remedy="save it too: {remedy}",
        ),
        Message(
            id="rules-undecoded",
            error=UserError,
            text="the program that printed the rules could not decode one: {problem}",
            remedy="print them with the program that wrote them: kubectl exec -n kube-system POD -- iptables-save, in kube-proxy's pod",
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
            text="{destination} is claimed by two Services: {winner} has it, {loser} does not",
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
