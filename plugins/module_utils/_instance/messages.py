# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with node instances, in one table."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError

MESSAGES = Messages(
    "docs/reference/errors-node-instances.md",
    [
        Message(
            id="instance-name",
            error=UserError,
            text="{path}: {name!r} is not a node name; use up to 40 of a-z, 0-9 and -, beginning and ending with a letter or digit",
            remedy="rename it",
        ),
        Message(
            id="instance-twice",
            error=UserError,
            text="{path}: {value} is already used by {first}",
            remedy="choose another one",
        ),
        Message(
            id="instance-address",
            error=UserError,
            text="{path}: {value!r} is not {wanted}",
            remedy="write it like 10.97.0.11 or 10.128.1.0/24, with IPv6 like fd00::b or fd00:1::/64",
        ),
        Message(
            id="instance-families",
            error=UserError,
            text="{path}: {value} does not match the bridge's IP families, {wanted}",
            remedy="write one address per family of gateway, in the same order, separated by a comma",
        ),
        Message(
            id="instance-outside",
            error=UserError,
            text="{path}: {value} is outside {network}, the bridge's network",
            remedy="choose an address of that network",
        ),
        Message(
            id="instance-label",
            error=UserError,
            text="{path}: {value!r} is not {wanted}",
            remedy="see 'Labels and Selectors' and 'Taints and Tolerations' in the Kubernetes documentation",
        ),
        Message(
            id="instance-state-dir",
            error=UserError,
            text="state_dir: {value!r} is not an absolute path of at most {limit} letters, digits, and . _ - /",
            remedy="choose a shorter path: socket paths below it must not exceed 107 characters",
        ),
        Message(
            id="instance-path",
            error=UserError,
            text="{path}: {value!r} is not a plain absolute path",
            remedy="write it as /srv/data: without spaces, without . and .., with one / before each name and none at its end",
        ),
        Message(
            id="instance-port",
            error=UserError,
            text="{path}: {value} is not a port",
            remedy="use 1 to 65535",
        ),
        Message(
            id="instance-port-range",
            error=UserError,
            text="{path}: {value!r} is not a port range",
            remedy="write it as 30000-32767",
        ),
        Message(
            id="instance-published-twice",
            error=UserError,
            text="{path}: {value} is already published by {first}",
            remedy="publish each port once",
        ),
        Message(
            id="instance-port-taken",
            error=HostError,
            text="publish: port {port} of this host is in use",
            remedy="publish another port, or free it: `ss -ltnp` lists listening programs, `ballast.kube.labs_info` lists other labs",
        ),
        Message(
            id="instance-link",
            error=UserError,
            text="{path}: {value!r} is not an interface name; use up to 15 of a-z, 0-9 and - . _",
            remedy="choose a shorter or simpler name",
        ),
        Message(
            id="instance-amount",
            error=UserError,
            text="{path}: {value!r} is not greater than 0",
            remedy="omit it for no limit",
        ),
        Message(
            id="instance-pids",
            error=UserError,
            text="{path}: {value} is more than a kernel can count",
            remedy="use at most {most}, or omit it for no limit",
        ),
        Message(
            id="instance-label-reserved",
            error=UserError,
            text="{path}: Kubernetes does not let a kubelet set the label {key} on its own Node",
            remedy="use a key with another domain, or set the label later: kubectl label node",
        ),
        Message(
            id="instance-kubelet-own",
            error=UserError,
            text="{path}: {key} cannot be set here: {why}",
            remedy="leave it out",
        ),
        Message(
            id="instance-kubelet-unknown",
            error=UserError,
            text="its kubelet ignores a part of its configuration",
            remedy="correct it: KubeletConfiguration (v1beta1) in the Kubernetes reference lists its keys",
        ),
        Message(
            id="instance-mount-place",
            error=UserError,
            text="{path}: a mount at {value} would hide {kept}, which every node needs",
            remedy="choose another path, such as /data or /var/lib/app",
        ),
        Message(
            id="instance-mount-missing",
            error=UserError,
            text="{path}: {value} does not exist on this host",
            remedy="create it, or choose an existing path",
        ),
        Message(
            id="instance-gate",
            error=UserError,
            text="{path}: {value!r} is not a feature gate with its value",
            remedy="write the gate's Kubernetes name, with true or false",
        ),
        Message(
            id="instance-registry",
            error=UserError,
            text="{path}: {value!r} is not a registry host",
            remedy="write it as in image names: docker.io, registry.example.org:5000; _default means every other registry",
        ),
        Message(
            id="instance-mirrors",
            error=UserError,
            text="{path}: not a list of URLs for each registry",
            remedy='write a mapping such as {{docker.io: ["https://mirror.example.org"]}}',
        ),
        Message(
            id="instance-mirror",
            error=UserError,
            text="{path}: {value!r} is not a mirror URL",
            remedy="write scheme, host, port and path, as in https://mirror.example.org:5000/docker",
        ),
        Message(
            id="instance-mirror-user",
            error=UserError,
            text="{path}: the mirror URL contains a user or a password, which every user of this host could read",
            remedy="remove them; use imagePullSecrets in pods",
        ),
        Message(
            id="instance-proxy-url",
            error=UserError,
            text="{path}: the value is not a proxy URL; it is not shown because it may contain a password",
            remedy="write it as http://proxy.example.org:3128; USER:PASSWORD@ goes before its host, with quotes, slashes and spaces as %XX",
        ),
        Message(
            id="instance-no-proxy",
            error=UserError,
            text="{path}: {value!r} is not a host, a domain or a network",
            remedy="write entries as example.org, .example.org, 10.0.0.0/8 or *, separated by commas",
        ),
        Message(
            id="instance-containerd",
            error=HostError,
            text="containerd did not respond within {seconds} seconds",
            remedy="read its log in the instance's log directory",
        ),
        Message(
            id="instance-images",
            error=HostError,
            text="the images of the archives cannot be imported into {place}",
            remedy="if its disk is full, free space, then run the same command again; your own archives must work with `ctr images import`",
        ),
        Message(
            id="instance-no-credentials",
            error=UserError,
            text="{path}: credentials for instance {name} are missing or incomplete",
            remedy="add the node to control_plane_nodes, for which the role control_plane creates credentials; the user who runs Ansible must be "
            "able to read node_instances_pki_dir, or set node_instances_pki_become: true",
        ),
        Message(
            id="instance-no-binary",
            error=HostError,
            text="{bin_dir} lacks {missing}",
            remedy="run the role kubernetes_binaries, or set bin_dir to a directory that contains them",
        ),
        Message(
            id="instance-no-bridge",
            error=HostError,
            text="the bridge {bridge} does not exist on this host",
            remedy="run ballast.kube.instance_network first, as the role node_instances does",
        ),
        Message(
            id="instance-service-fails",
            error=PeerError,
            text="{service} keeps failing: it ended {times} times",
            remedy="read its log: {log}",
        ),
        Message(
            id="instance-not-ready",
            error=PeerError,
            text="its Node did not become Ready within {seconds} seconds",
            remedy="read the logs of its services in {log}",
        ),
        Message(
            id="instance-proxy",
            error=PeerError,
            text="its {proxy} did not become healthy within {seconds} seconds",
            remedy="read {proxy}.log in {log}; if a DaemonSet runs kube-proxy, read the logs of its pods below {log}/pods",
        ),
        Message(
            id="instance-proxy-daemonset",
            error=UserError,
            text="{path}: backend ballast runs as a service of the instance, but kube_proxy is daemonset",
            remedy="use nftables, iptables or ipvs, or set kube_proxy to service",
        ),
    ],
)
