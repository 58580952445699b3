# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several kubelets on one host: the resources of each in the order of creation, and whether its Node becomes Ready.

    directories, keys, configuration     kept when an instance is stopped
    cgroup                                limits; its removal ends every pod
    network namespace, veth, route        the instance's own network
    mount namespace                       its own content at paths that programs fix
    images                                from archives, without a registry: imported once for all instances
    services, their supervisor            containerd, kubelet, kube-proxy or ballast-service-proxy
    images of archives added later        imported by the instance

`state: stopped` keeps the recorded resources of the first line and removes the others, newest first.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Optional

from .._agent.installation import CONFIG_DIRECTORY
from .._core.engine.context import Context
from .._core.engine.engine import Finding, ResourceEngine
from .._core.engine.events import Progress
from .._core.engine.kinds import BASE_KINDS, Kind, directory, file, sysctl_minimum
from .._core.engine.plan import ABSENT, Plan, Recorded, Resource, State, Value
from .._core.engine.shared_directory import SHARED_KINDS, shared_directory
from .._core.engine.wait import Pending, Ready, wait
from .._core.host.host import LOG_LIMIT, Host
from .._core.host.names import entry, run_directory
from .._core.host.processes import age_seconds
from .._core.service.cgroup import CGROUP_KINDS, Limits, cgroup, kill_processes
from .._core.service.runit import stop_together
from .._core.service.service import env_file_text, service, supervisor
from .._core.service.services import SERVICE_KINDS, service_pid
from .._core.text.errors import BallastError, Problems, last_lines
from .._core.text.ip_families import is_ipv6, join, split
from .._core.text.json_text import parse_json
from .._registry.names import refuse_others_directory
from . import config
from .image_store import IMAGE_STORE_KINDS, image_seed, image_store
from .images import ImagesKind, images
from .messages import MESSAGES
from .model import DAEMONSET, SERVICE_PROXY, Instance, InstancesRequest
from .mounts import MOUNT_KINDS, Mount, recorded_by_an_earlier_version
from .network import IPV6_SYSCTLS, NETNS_SYSCTLS, NETWORK_KINDS, mac_address, netns_path, route
from .node_mounts import find_problems
from .places import (
    containerd_directory,
    home_of,
    log_path,
    mountns_path,
    service_target,
    services_directory,
)
from .process_readings import NodeReading, read_node, read_proxy_backend, read_proxy_health, read_pss_bytes
from .record import options_file, proxies_path
from .registries import mirror_resources
from .restore import RESTORE_KINDS, restore_resources
from .service_proxy import SERVICE_RULES_KINDS, find_missing_packages, service_proxy_resources
from .services import services, services_of
from .view import CONTAINERD_STATE, KUBELET_ROOT, MOUNT_POINTS, is_of_host, root_of

BINARIES = (
    *("containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "kube-proxy"),
    *("ptp", "host-local", "loopback", "portmap"),
)
# A kubelet sets these on the host (kubelet/cm setupKernelTunables). They are set here so that removal restores them.
_KUBELET_SYSCTLS = {
    "kernel.keys.root_maxbytes": 25_000_000,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "vm.overcommit_memory": 1,
}
# Not namespaced, and too low for several kubelets (kind, "Known issues": too many open files).
_INOTIFY_SYSCTLS = {"fs.inotify.max_user_instances": 8192, "fs.inotify.max_user_watches": 1_048_576}
KERNEL_MODULES = "/lib/modules"
_RESTARTS_MAX = 3
_KEPT_WHEN_STOPPED = ("directory", "file")


class InstanceEngine(ResourceEngine[InstancesRequest]):
    name = "instance"
    kinds: Mapping[str, Kind] = {
        **BASE_KINDS,
        **CGROUP_KINDS,
        **IMAGE_STORE_KINDS,
        **MOUNT_KINDS,
        **NETWORK_KINDS,
        **RESTORE_KINDS,
        **SERVICE_KINDS,
        **SERVICE_RULES_KINDS,
        **SHARED_KINDS,
        "image": ImagesKind(),
    }

    def read_recorded(self, ctx: Context[InstancesRequest]) -> tuple[Recorded, ...]:
        refuse_others_directory(ctx.host, ctx.desired.state_dir, name=ctx.desired.lab)
        return super().read_recorded(ctx)

    def wanted(self, ctx: Context[InstancesRequest]) -> list[Resource]:
        desired = ctx.desired
        if desired.state != "present" or not desired.instances:
            return []
        resources = self._host_resources(desired)
        for instance in desired.instances:
            resources += self._instance_resources(desired.programs_of(instance), instance, ctx.host)
        # After the runtimes of all instances are started, as each import waits for one.
        for instance in desired.instances:
            if not instance.stopped:
                place, bin_dir = mountns_path(desired.lab, instance.name), desired.programs_of(instance).bin_dir
                resources += images(place, bin_dir, desired.archives, group=_group(instance))
        if not desired.at_boot:
            return resources
        # A restart of the host ends a mount namespace that an earlier version made, so the new form is restored.
        new = [_mount_namespace(desired.programs_of(instance), instance) for instance in desired.instances]
        by_key = {resource.key: resource for resource in new}
        made = [by_key.get(resource.key, resource) for resource in resources]
        return resources + restore_resources(desired.state_dir, desired.lab, "nodes", made, after="network")

    def plan(self, desired: InstancesRequest, state: State) -> Plan:
        if desired.state != "stopped":
            return super().plan(desired, state)
        kept = [
            Resource(kind=old.kind, target=old.target, value=state.values[old.key], title=old.title)
            for old in state.recorded
            if old.kind in _KEPT_WHEN_STOPPED
        ]
        return self.plan_steps(kept, state)

    def before_steps(self, plan: Plan, ctx: Context[InstancesRequest]) -> None:
        """Stop together what takes each node up to a second. Processes in a slice are ended by systemd."""
        removed = [step for step in plan.steps if step.after == ABSENT]
        stop_together(ctx.host, [step.target for step in removed if step.kind == "supervisor"])
        for step in removed if not ctx.host.is_systemd() else ():
            if step.kind == "cgroup":
                kill_processes(ctx.host, step.target)

    def require(self, ctx: Context[InstancesRequest], state: State) -> None:
        desired = ctx.desired
        if desired.state != "present":
            return
        problems = [
            MESSAGES.error("instance-no-credentials", path=f"instances.{instance.name}", name=instance.name)
            for instance in desired.instances
            if not desired.ca or not all(desired.credential(instance, name) for name in instance.credential_files)
        ]
        for number, instance in enumerate(desired.instances):
            problems += find_problems(instance.mounts, ctx.host, f"instances[{number}].mounts")
        if any(instance.proxy == SERVICE_PROXY for instance in desired.instances):
            problems += find_missing_packages(ctx.host)
        missing = [name for name in BINARIES if ctx.host.stat(os.path.join(desired.bin_dir, name)) is None]
        if missing:
            problems.append(MESSAGES.error("instance-no-binary", bin_dir=desired.bin_dir, missing=", ".join(missing)))
        if ctx.host.stat(f"/sys/class/net/{desired.bridge}") is None:
            problems.append(MESSAGES.error("instance-no-bridge", bridge=desired.bridge))
        Problems.raise_if(problems)

    def groups_verified(self, desired: InstancesRequest) -> list[str]:
        running = [instance for instance in desired.instances if not instance.stopped]
        return [_group(instance) for instance in running if desired.state == "present"]

    def verify(self, ctx: Context[InstancesRequest]) -> list[Finding]:
        desired, host, progress = ctx.desired, ctx.host, ctx.progress
        if desired.state != "present":
            return []
        start = host.monotonic()
        findings = []
        for instance in desired.instances:
            if instance.stopped:
                continue
            left = max(1.0, desired.ready_seconds - (host.monotonic() - start))
            try:
                self._wait_until_ready(desired, instance, host, progress, deadline_seconds=left)
                progress.done(_group(instance), "Ready")
            except BallastError as error:
                progress.failed(_group(instance), error.text)
                text = error.text + (f" ({error.found})" if error.found else "")
                findings.append(Finding(id=error.id, subject=_group(instance), text=text, remedy=error.remedy))
        return findings

    def preview(self, ctx: Context[InstancesRequest]) -> dict[str, object]:
        return {"instances": []}  # measured, not planned

    def report(self, ctx: Context[InstancesRequest]) -> dict[str, object]:
        desired = ctx.desired
        instances = desired.instances if desired.state == "present" else ()
        return {"instances": [_read_instance(desired, instance, ctx.host) for instance in instances]}

    def _host_resources(self, desired: InstancesRequest) -> list[Resource]:
        # Their parent is the state directory, which holds the journal.
        homes = [directory(home_of(desired, instance), group=_group(instance)) for instance in desired.instances]
        holder = desired.state_dir
        # A pod of kube-proxy mounts this directory; if it is missing, the container runtime creates it and leaves it behind.
        shared = [*MOUNT_POINTS, CONFIG_DIRECTORY, *([KERNEL_MODULES] if desired.kube_proxy == DAEMONSET else [])]
        return [
            *(sysctl_minimum(name, least, holder=holder) for name, least in sorted(_INOTIFY_SYSCTLS.items())),
            *(sysctl_minimum(name, least, holder=holder) for name, least in sorted(_KUBELET_SYSCTLS.items())),
            *(shared_directory(path, holder=holder, group="host settings") for path in shared),
            Resource(
                kind="private-directory",
                target=run_directory(desired.lab),
                value={},
                title=f"directory {run_directory(desired.lab)}",
                group="host settings",
            ),
            *homes,
            *image_store(
                desired.state_dir, run_directory(desired.lab), desired.archives, desired.bin_dir, group="images"
            ),
            *mirror_resources(desired.certs_dir, desired.registry_mirrors),
            options_file(desired, "host settings"),
        ]

    def _instance_resources(self, desired: InstancesRequest, instance: Instance, host: Host) -> list[Resource]:
        kept = _kept_resources(desired, instance)
        if instance.stopped:
            return [*kept, *_apart(desired, instance)]
        by_options = _kept_resources(desired, replace(instance, kube_proxy_config=""))
        files = [part for part in by_options if part.kind == "file"]
        variables = next(iter(_proxies(desired, instance)), None)
        sv_dir = services_directory(desired, instance)
        group = _group(instance)
        return [
            *kept,
            *_apart(desired, instance),
            cgroup(
                desired.cgroup(instance),
                Limits(cpu_millis=instance.cpu_millis, memory_bytes=instance.memory_bytes, pids=instance.pids),
                group=group,
            ),
            *_network_resources(desired, instance),
            _run_directory(desired, instance),
            _in_use(_mount_namespace(desired, instance), instance, host),
            _entry(desired, instance),
            *image_seed(desired.state_dir, f"{home_of(desired, instance)}/containerd", desired.archives, group=group),
            *service_proxy_resources(desired, instance, group=group),
            *(
                service(sv_dir, part, running=True, group=group)
                for part in services(desired, instance, files, variables)
            ),
            supervisor(sv_dir, group=group),
        ]

    def _wait_until_ready(
        self, desired: InstancesRequest, instance: Instance, host: Host, progress: Progress, *, deadline_seconds: float
    ) -> None:
        pids: dict[str, set[int]] = {name: set() for name in services_of(desired, instance)}
        lacks = "instance-not-ready"

        def probe() -> Ready[None] | Pending:
            nonlocal lacks
            for name, seen in pids.items():
                pid = service_pid(host, service_target(desired, instance, name))
                seen.update([pid] if pid else [])
                if len(seen) > _RESTARTS_MAX:
                    log = log_path(desired, instance, name)
                    lines = last_lines((host.read_end(log, LOG_LIMIT) or b"").decode(errors="replace"), limit=5)
                    times = len(seen) - 1
                    raise MESSAGES.error("instance-service-fails", service=name, times=times, log=log, found=lines)
            node = read_node(desired, instance, host)
            if not node.ready:
                return Pending(node.reason)
            kubelet = service_pid(host, service_target(desired, instance, "kubelet"))
            age = None if kubelet is None else age_seconds(host, kubelet)
            if age is None or node.heartbeat < int(host.now() - age):
                return Pending("condition Ready is older than the kubelet's start")
            lacks = "instance-proxy"
            health = read_proxy_health(instance, host)
            return Ready(None) if not health else Pending(health)

        try:
            wait(host, progress, _group(instance), probe, deadline_seconds=deadline_seconds)
        except BallastError as error:
            if error.id != "core-wait-deadline":
                raise
            shown = {
                "proxy": instance.proxy,
                "seconds": f"{desired.ready_seconds:.0f}",
                "log": os.path.dirname(log_path(desired, instance, "kubelet")),
            }
            raise MESSAGES.error(lacks, found=error.found, **shown) from error
        _record_ready_seconds(desired, instance, host)
        _refuse_ignored_keys(desired, instance, host)


ENGINE = InstanceEngine()


def _group(instance: Instance) -> str:
    return f"node {instance.name}"


def _refuse_ignored_keys(desired: InstancesRequest, instance: Instance, host: Host) -> None:
    """Refuse keys in the user's part of the KubeletConfiguration that the kubelet does not know. It starts without them, and only
    its log names them."""
    pid = service_pid(host, service_target(desired, instance, "kubelet")) if instance.kubelet else None
    if pid is None:
        return
    log = (host.read_end(log_path(desired, instance, "kubelet"), LOG_LIMIT) or b"").decode(errors="replace")
    said = re.findall(
        rf"^\w\d{{4}} \S+ +{pid} codec\.go:.*strict decoding error: (.*)\"$", log, re.ASCII | re.MULTILINE
    )
    if said:
        raise MESSAGES.error("instance-kubelet-unknown", found=said[-1].replace('\\"', '"'))


def _kept_resources(desired: InstancesRequest, instance: Instance) -> list[Resource]:
    """Directories, keys and configuration."""
    home, group = home_of(desired, instance), _group(instance)
    pki, etc = f"{home}/pki", f"{home}/etc"
    keys = [
        file(f"{pki}/{name}", desired.credential(instance, name), mode=mode, group=group)
        for name, mode in ((name, 0o600 if name.endswith(".key") else 0o644) for name in instance.credential_files)
    ]
    proxy_config = config.service_proxy if instance.proxy == SERVICE_PROXY else config.kube_proxy
    modes = {"containerd": 0o700, "pki": 0o700, "log": 0o750}  # containerd sets this mode on its own
    drop_ins = ("etc/kubelet.conf.d", "etc/containerd.conf.d")  # for settings that other modules make
    names = ("pki", "etc", *drop_ins, "etc/cni", "kubelet", "containerd", "log", "log/pods", "log/containers")
    return [
        *(directory(f"{home}/{name}", mode=modes.get(name, 0o755), group=group) for name in names),
        file(f"{pki}/ca.crt", desired.ca, group=group),
        *keys,
        file(f"{etc}/kubelet.kubeconfig", config.kubeconfig(desired, pki, "kubelet"), group=group),
        file(f"{etc}/{instance.proxy}.kubeconfig", config.kubeconfig(desired, pki, instance.proxy), group=group),
        file(f"{etc}/kubelet.json", config.kubelet(desired, instance, home), group=group),
        file(
            f"{etc}/{instance.proxy}.json",
            instance.kube_proxy_config or proxy_config(desired, instance, home),
            group=group,
        ),
        file(f"{etc}/containerd.toml", config.containerd(desired, instance, home), group=group),
        file(f"{etc}/cni/10-ballast.conflist", config.cni(desired, instance), group=group),
    ]


def _apart(desired: InstancesRequest, instance: Instance) -> list[Resource]:
    """Files whose change must not restart every service."""
    return [*_startup_taints(desired, instance), *_proxies(desired, instance)]


def _proxies(desired: InstancesRequest, instance: Instance) -> list[Resource]:
    if not desired.proxies:
        return []
    path = proxies_path(desired.state_dir, instance.name)
    return [file(path, env_file_text(desired.proxies), mode=0o600, group=_group(instance))]


def _startup_taints(desired: InstancesRequest, instance: Instance) -> list[Resource]:
    """A kubelet reads startup taints only when it registers its Node, so changing them restarts no kubelet."""
    if not instance.startup_taints:
        return []
    path = f"{home_of(desired, instance)}/etc/kubelet.conf.d/10-startup-taints.conf"
    return [file(path, config.startup_taints(instance), group=_group(instance))]


def _network_resources(desired: InstancesRequest, instance: Instance) -> list[Resource]:
    group, netns, link = _group(instance), desired.unit(instance), desired.link(instance)
    veth = {
        "bridge": desired.bridge,
        "mac": mac_address(netns),
        "address": join(
            f"{address}/{length}" for address, (_gateway, length) in zip(split(instance.address), desired.gateways)
        ),
        "gateway": join(gateway for gateway, _length in desired.gateways),
    }
    ipv6 = Resource("netns-ipv6", netns, {"sysctls": IPV6_SYSCTLS}, title=f"IPv6 in {netns}", group=group)
    return [
        Resource(
            kind="netns",
            target=netns,
            value={"sysctls": NETNS_SYSCTLS, "lo": True},
            title=f"network namespace {netns}",
            group=group,
        ),
        *([ipv6] if any(map(is_ipv6, split(instance.address))) else []),
        Resource(kind="veth", target=f"{link} {netns}", value=veth, title=f"veth {link}", group=group),
        *(
            route(network, via=address, group=group)
            for network, address in zip(split(instance.pod_cidr), split(instance.address))
        ),
    ]


def _run_directory(desired: InstancesRequest, instance: Instance) -> Resource:
    """/run/containerd of the instance, at a path where programs of the host can reach the socket."""
    target = containerd_directory(desired.lab, instance.name)
    # The mode that containerd gives the directory.
    value = {"mode": 0o711}
    return Resource("run-directory", target, value, title=f"directory {target}", group=_group(instance))


def _mount_namespace(desired: InstancesRequest, instance: Instance) -> Resource:
    home, target = home_of(desired, instance), mountns_path(desired.lab, instance.name)
    sources = {
        KUBELET_ROOT: f"{home}/kubelet",
        CONTAINERD_STATE: containerd_directory(desired.lab, instance.name),
        "/var/log/containers": f"{home}/log/containers",
    }
    # No mount for a path that shows the host's files anyway: another programs' directory would then end the pods of all nodes.
    hidden = f"{desired.state_dir}/"
    current = [path for path in (desired.certs_dir, desired.bin_dir) if path.startswith(hidden) or not is_of_host(path)]
    mounts = [
        Mount(target=desired.state_dir, source=""),  # an empty tmpfs hides the keys of other instances
        *(Mount(target=path, source=path) for path in (home, *current)),
        *(Mount(target=path, source=sources.get(path, "")) for path in MOUNT_POINTS),
    ]
    value: Value = {
        "home": home,
        "cgroup": desired.cgroup(instance),
        "mounts": [{"target": mount.target, "source": mount.source} for mount in mounts],
        "given": [
            {"target": mount.node, "source": mount.host, "options": "ro" if mount.read_only else "rw"}
            # Parents come first: a parent mounted later would hide what is below it.
            for mount in sorted(instance.mounts, key=lambda mount: mount.node)
        ],
    }
    return Resource("mountns", target, value, title=f"mount namespace {target}", group=_group(instance))


def _entry(desired: InstancesRequest, instance: Instance) -> Resource:
    """The path by which an inventory names the interpreter. It exists only inside the instance: without the become plugin the
    task fails, instead of running on the host."""
    target = f"{root_of(home_of(desired, instance))}{entry(desired.unit(instance))}"
    return Resource("symlink", target, {"to": "/"}, title=f"link {target}", group=_group(instance))


def _in_use(mountns: Resource, instance: Instance, host: Host) -> Resource:
    """The namespace as it is, if an earlier version made it and the instance needs nothing that it lacks; else `mountns`."""
    earlier = None if instance.mounts else recorded_by_an_earlier_version(host, mountns.target)
    return replace(mountns, value=earlier) if earlier else mountns


def _record_ready_seconds(desired: InstancesRequest, instance: Instance, host: Host) -> None:
    """Record the seconds from the kubelet's start to its first Ready, for later runs."""
    path = os.path.join(home_of(desired, instance), "ready.json")
    pid = service_pid(host, service_target(desired, instance, "kubelet"))
    recorded = parse_json(host.read(path) or b"{}")
    age = None if pid is None else age_seconds(host, pid)
    if age is not None and recorded.get("pid") != pid:
        host.write(path, json.dumps({"pid": pid, "seconds": round(age, 1)}).encode())


def _read_instance(desired: InstancesRequest, instance: Instance, host: Host) -> dict[str, Any]:
    home = home_of(desired, instance)
    pids = {name: service_pid(host, service_target(desired, instance, name)) for name in services_of(desired, instance)}
    recorded: dict[str, Optional[float]] = parse_json(host.read(os.path.join(home, "ready.json")) or b"{}")
    node: NodeReading = read_node(desired, instance, host)
    return {
        "name": instance.name,
        "address": instance.address,
        "pod_cidr": instance.pod_cidr,
        "proxy_backend": read_proxy_backend(home, instance, host),
        "proxy_reason": read_proxy_health(instance, host),
        "ready": node.ready,
        "reason": node.reason,
        "cordoned": node.cordoned,
        "kubelet_version": node.kubelet_version,
        "container_runtime_version": node.container_runtime_version,
        "ready_seconds": recorded.get("seconds"),
        "pids": pids,
        "pss_bytes": read_pss_bytes(
            desired.cgroup(instance), desired.unit(instance), services_of(desired, instance), host
        ),
        "netns": netns_path(desired.unit(instance)),
        "mountns": mountns_path(desired.lab, instance.name),
        "home": home,
        "logs": os.path.join(home, "log"),
    }
