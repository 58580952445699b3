# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages about changes of a node's kube-proxy."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, PeerError, UserError
from .._kubelet.owners import kube_proxy_owners

_AGAIN = "then run the same command again"

MESSAGES = Messages(
    "docs/reference/errors-kube-proxy.md",
    [
        Message(
            id="migrate-option",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="see the page of ballast.kube.kube_proxy",
        ),
        Message(
            id="migrate-no-config",
            error=HostError,
            text="{path}: this file does not exist, so kube-proxy's configuration cannot be read",
            remedy="omit service and config_path: the module reads them from the running kube-proxy process",
        ),
        Message(
            id="migrate-config-shape",
            error=UserError,
            text="{path} is not a KubeProxyConfiguration",
            remedy=f"fix that file, or name another one as config_path, {_AGAIN}",
        ),
        Message(
            id="migrate-config-unused",
            error=HostError,
            text="kube-proxy was not started with --config={path}, so it does not use that file",
            remedy="omit config_path, or start kube-proxy with that file",
        ),
        Message(
            id="migrate-no-service",
            error=HostError,
            text="service {service} does not exist on this node",
            remedy="omit service: the module finds it while kube-proxy runs; or name its systemd unit or its runit service directory",
        ),
        Message(
            id="migrate-none",
            error=HostError,
            text="no kube-proxy runs on this node: its network namespace has no kube-proxy process of root, and there is no unit kube-proxy",
            remedy="check whether its pod is starting (kubectl -n kube-system get pods -o wide), then run the same command again; if a stopped "
            "service runs it, name that service",
        ),
        Message(
            id="migrate-several",
            error=HostError,
            text="several kube-proxy processes run in this node's network namespace",
            remedy="stop the leftover ones; a node needs exactly one",
        ),
        Message(
            id="migrate-elsewhere",
            error=HostError,
            text="kube-proxy (process {pid}) runs neither in a systemd or runit service nor in a pod: its cgroup is {cgroup}",
            remedy="run it from a systemd unit or a DaemonSet; a Docker container or a manually started process cannot be restarted safely",
        ),
        Message(
            id="migrate-static-pod",
            error=HostError,
            text="kube-proxy (process {pid}) is a static pod whose manifest another tool writes, so the module changes nothing",
            remedy="change --proxy-mode or the configuration with the tool that wrote the manifest (staticPodPath of the kubelet, usually "
            "/etc/kubernetes/manifests)",
        ),
        Message(
            id="migrate-no-config-flag",
            error=HostError,
            text="{service} starts kube-proxy without --config, so no file sets its mode",
            remedy="start it with --config=FILE, a KubeProxyConfiguration with the values of its flags, then run the same command again",
        ),
        Message(
            id="migrate-no-process",
            error=HostError,
            text="no process in this node's network namespace is verified as kube-proxy: it must run as root in the cgroup of a pod that a "
            "kube-system DaemonSet created",
            remedy="inspect its pod: kubectl -n kube-system get pods -o wide -l k8s-app=kube-proxy",
        ),
        Message(
            id="migrate-no-kubeconfig",
            error=UserError,
            text="{path} names no kubeconfig, so the module cannot tell how kube-proxy reaches the API",
            remedy="set kubeconfig to a file whose user may list and watch Services, EndpointSlices and Nodes",
        ),
        Message(
            id="migrate-no-kubelet",
            error=HostError,
            text="{path} does not exist: without the kubelet's credentials the module cannot verify which process is the node's kube-proxy",
            remedy="start the kubelet: the module reads its --kubeconfig; if the kubelet uses no such file, run kube-proxy as a service",
        ),
        Message(
            id="migrate-kubelets",
            error=HostError,
            text="several kubelets with different kubeconfigs run in this network namespace",
            remedy="run the module in the namespaces of one kubelet",
        ),
        Message(
            id="migrate-pod-credentials",
            error=HostError,
            text="{path} in kube-proxy's pod names credentials other than its ServiceAccount's",
            remedy="set kubeconfig to a file on this node whose user may list and watch Services, EndpointSlices and Nodes",
        ),
        Message(
            id="migrate-unreadable",
            error=HostError,
            text="{path} is not there",
            remedy="check the arguments that kube-proxy is started with",
        ),
        Message(
            id="migrate-preflight",
            error=UserError,
            text="{count} preflight checks block the change: {ids}",
            remedy="fix each one, or list a warning that you accept in acknowledge",
        ),
        Message(
            id="migrate-bridge",
            error=HostError,
            text="the watchdog did not install the takeover table within {seconds} seconds",
            remedy=f"fix the problem in the watchdog's log, {_AGAIN}",
        ),
        Message(
            id="migrate-gate",
            error=PeerError,
            text="kube-proxy in mode {mode} was not healthy within {seconds} seconds",
            remedy="read kube-proxy's log, in mode ballast /var/log/ballast-service-proxy/service-proxy.log; if it only needs more time, "
            f"increase verify_seconds; {_AGAIN}",
        ),
        Message(
            id="migrate-audit",
            error=PeerError,
            text="kube-proxy's rules in mode {mode} do not match the Services: {count} differences",
            remedy="list them all with ballast.kube.service_rules_info, audit_rules: true and owner: kube-proxy",
        ),
        Message(
            id="migrate-probe",
            error=PeerError,
            text="unreachable since switching to {mode}: {what}",
            remedy=f"find out why, {_AGAIN}",
        ),
        Message(
            id="migrate-ballast-daemonset",
            error=HostError,
            text="a DaemonSet runs kube-proxy on this node, and mode ballast cannot stop the pod of a single node",
            remedy="choose nftables for this node; or run kube-proxy from a systemd unit or a runit service, which can be stopped; or serve "
            "single Services in addition with ballast.kube.service_proxy and service_proxy_name",
        ),
        Message(
            id="migrate-ballast-installed",
            error=HostError,
            text="this node already has a service proxy that this module did not install, and only one can run",
            remedy="remove the label service.kubernetes.io/service-proxy-name from the Services that it serves, then remove it with "
            f"ballast.kube.service_proxy and state: absent, {_AGAIN}",
        ),
        Message(
            id="migrate-held-elsewhere",
            error=HostError,
            text="{service} is stopped for mode ballast, but the journal in {state_dir} has no entry about it",
            remedy="set state_dir to that of the run that switched the node to mode ballast",
        ),
        Message(
            id="migrate-hold-taken",
            error=HostError,
            text="{path} already exists and this module did not create it, so kube-proxy cannot be stopped",
            remedy=f"remove it, {_AGAIN}",
        ),
        Message(
            id="migrate-draining",
            error=HostError,
            text="{path} is not a valid record of ipvs connections",
            remedy=f"remove that file, {_AGAIN}; the cleanup then keeps virtual servers until their connections have ended",
        ),
        Message(
            id="migrate-ipvs-lost",
            error=HostError,
            text="{count} virtual servers with open connections could not be kept: {servers}",
            remedy=f"find the other program that changes virtual servers (ipvsadm -L -n), {_AGAIN}",
        ),
        Message(
            id="migrate-probe-service",
            error=UserError,
            text="probe_service: Service {name} does not exist",
            remedy="give an existing one as NAMESPACE/NAME, or omit it",
        ),
        Message(
            id="migrate-not-in-order",
            error=PeerError,
            text="kube-proxy in mode {mode} is not healthy: {reason}",
            remedy="read kube-proxy's log, in mode ballast /var/log/ballast-service-proxy/service-proxy.log",
        ),
        *(
            Message(
                id=f"migrate-owner-{owner.name}",
                error=HostError,
                text=f"{owner.runs}, so the module changes nothing on this node",
                remedy=owner.kube_proxy,
            )
            for owner in kube_proxy_owners()
        ),
    ],
)
