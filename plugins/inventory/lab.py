# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: lab
short_description: List the hosts and node instances of a running lab
version_added: 1.0.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - Reads the record of a lab, C(lab.json) in its directory, on the Ansible control node.
  - Hosts are in the group C(ballast_hosts), node instances in C(ballast_nodes) and, by the backend of their Services, in
    C(proxy_ballast), C(proxy_iptables), C(proxy_ipvs) or C(proxy_nftables). The machine with the control plane is in C(ballast_control_plane).
  - A task for a node instance runs on its host, inside its namespaces, through the become plugin
    P(ballast.kube.instance#become).
  - Every instance has the variables C(ballast_host), C(ballast_address), C(ballast_pod_cidr), C(ballast_labels),
    C(ballast_taints), C(ballast_proxy_backend) and C(ballast_runtime). All hosts have C(ballast_lab), with C(name),
    C(kubernetes_version), C(lab_dir), C(kubeconfig), C(api_server), C(node_cidr), C(pod_cidr) and C(service_cidr).
  - Every instance has the variables that the playbooks C(ballast.kube.kube_proxy_*) read, C(kube_proxy_service),
    C(kube_proxy_config_path) and C(kube_proxy_state_dir), or C(kube_proxy_deployment) if a DaemonSet runs kube-proxy.
  - Every instance has the variables that the playbook C(ballast.kube.image_pull_proxy) reads, C(image_pull_proxy_kubelet_service),
    C(image_pull_proxy_runtime_service),
    C(image_pull_proxy_runtime) and C(image_pull_proxy_node_state_dir).
  - Every instance has the variables that the playbook C(ballast.kube.balloons) reads, C(balloons_slice), C(balloons_kubelet_config) and
    C(balloons_kubelet_config_dir).
  - Hosts and the machine of the control plane have the variables with which the playbook C(ballast.kube.readiness) finds their features,
    C(node_instances_state_dir), C(node_instances_lab), C(node_instances_list), C(node_instances_gateway), C(node_instances_kube_proxy),
    C(node_instances_api_server) and C(control_plane_state_dir).
  - With a lab by kubeadm, virtual machines are in C(kube_control_plane) and C(kube_node), and all of them in C(k8s_cluster), with
    connection variables and C(ballast_lab).
  - Values of the record are never evaluated as templates.
  - The name of the configuration file must end in C(ballast.yml), C(ballast.yaml), C(lab.yml) or C(lab.yaml).
extends_documentation_fragment:
  - ansible.builtin.constructed
options:
  plugin:
    description: Marks the file as one for this plugin.
    type: str
    required: true
    choices: [ballast.kube.lab]
  lab_dir:
    description: Directory of the lab.
    type: path
    default: /var/lib/ballast/lab
    env:
      - name: BALLAST_LAB_DIR
      - name: LAB_DIR
seealso:
  - plugin: ballast.kube.instance
    plugin_type: become
"""

EXAMPLES = r"""
# ballast.yml; then: ansible -i ballast.yml ballast_nodes -m ansible.builtin.command -a 'nft list tables'
plugin: ballast.kube.lab

# ballast.yml of a lab elsewhere, with a group for each value of the label zone
# plugin: ballast.kube.lab
# lab_dir: /srv/lab
# keyed_groups:
#   - key: ballast_labels.zone
#     prefix: zone
"""

import ipaddress
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible.template import trust_as_template

from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import read_file
from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import READ_LIMIT
from ansible_collections.ballast.kube.plugins.module_utils._core.host.names import entry, join_name
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError
from ansible_collections.ballast.kube.plugins.module_utils._core.text.ip_families import join, primary, with_port
from ansible_collections.ballast.kube.plugins.module_utils._core.text.json_text import parse_json

_VERSION = 1
_FAMILIES = 2  # IP families, separated by a comma
_PAGE = "docs/inventory-and-become.md"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_PATH = re.compile(r"/[-A-Za-z0-9._/]{1,200}", re.ASCII)
_USER = re.compile(r"[a-z_][-a-z0-9_]{0,31}", re.ASCII)
_VERSION_TEXT = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_BACKEND = re.compile("ballast|iptables|ipvs|nftables")
_BOOTSTRAP = re.compile("lab|kubeadm")
_KUBE_PROXY = re.compile("service|daemonset")
_QUANTITY = re.compile(r"[0-9.]{1,20}[A-Za-z]{0,2}", re.ASCII)
# `ipaddress` accepts more: after a percent sign, any text as the zone of an IPv6 address.
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]{1,15})?(/[0-9]{1,3})?", re.ASCII)
# No template, or part of one, can be written with these characters.
_INERT = re.compile(r"[-A-Za-z0-9._:/@%=+,~ ]*", re.ASCII)
_RESERVED = ("all", "ungrouped")
_LOCAL = "localhost"
_OWN_CONNECTIONS = "mitogen"  # this strategy ignores become plugins of collections

Vars = dict[str, Any]


class InventoryModule(BaseInventoryPlugin, Constructable):
    NAME = "ballast.kube.lab"

    def verify_file(self, path: str) -> bool:
        endings = ("ballast.yml", "ballast.yaml", "lab.yml", "lab.yaml")
        return bool(super().verify_file(path)) and path.endswith(endings)

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        refuse_strategy(str(C.config.get_config_value("DEFAULT_STRATEGY")))
        self._read_config_data(path)
        lab_dir = str(self.get_option("lab_dir"))
        groups = groups_of(
            read_record(os.path.join(lab_dir, "lab.json")),
            python=sys.executable,
            uid=os.geteuid(),
            is_systemd=os.path.isdir("/run/systemd/system"),
        )
        for group, hosts in groups.items():
            inventory.add_group(group)
            for name, variables in hosts.items():
                inventory.add_host(name, group=group)
                for key, value in variables.items():
                    inventory.set_variable(name, key, _plain(value))
        for name in sorted({name for hosts in groups.values() for name in hosts}):
            self._construct(name)

    def _construct(self, name: str) -> None:
        strict = self.get_option("strict")
        host: Any = self.inventory.get_host(name) if self.inventory else None
        self._set_composite_vars(self.get_option("compose"), host.get_vars(), name, strict)
        variables = host.get_vars()
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict)


def read_record(path: str) -> object:
    """The content of lab.json, unchecked."""
    try:
        return parse_json(read_file(path, limit=READ_LIMIT))
    except FileNotFoundError as error:
        raise _error(
            f"{path}: there is no lab here",
            remedy="bring one up: ansible-playbook ballast.kube.lab_up; or name the directory of one: lab_dir in the inventory file",
            id="inventory-no-lab",
        ) from error
    except OSError as error:
        raise _error(
            f"{path}: cannot be read",
            found=error.strerror or str(error),
            remedy="run it as a user who may read it",
            id="inventory-unreadable",
        ) from error
    except HostError as error:  # no JSON, or too large
        raise _damaged(path, error.found or error.text) from error


def groups_of(record: object, *, python: str, uid: int, is_systemd: bool) -> dict[str, dict[str, Vars]]:
    """Variables by group and host. `python` and `uid` are those of the process that runs Ansible, `is_systemd` of its machine. Pure.

    AnsibleParserError, naming the place, for a record of another form; keys that are not needed are ignored.
    """
    lab = _Place(record, "lab")
    if lab.value("version", int) != _VERSION:
        raise _error(
            f"lab.version: {lab.value('version', int)} is not a version of the record that this inventory reads",
            remedy=f"use the version of the collection that made the lab (this one reads {_VERSION})",
            id="inventory-version",
        )
    common = {"ballast_lab": _lab_facts(lab)}
    if lab.has("bootstrap") and lab.text("bootstrap", _BOOTSTRAP) == "kubeadm":
        return _kubeadm_groups(lab, common, python=python)
    carriers = {place.text("name", _NAME): place for place in lab.places("hosts")}
    hosts = {name: _host_vars(place, python=python) for name, place in carriers.items()}
    proxy = _kube_proxy_deployment(lab)
    nodes: dict[str, Vars] = {}
    proxies: dict[str, dict[str, Vars]] = {}
    for place in lab.places("nodes"):
        name, carrier = place.text("name", _NAME), place.text("host", _NAME)
        if carrier not in hosts:
            raise _damaged(f"{place.path}.host", f"{carrier} is not one of the hosts")
        if name in nodes or name in hosts or name in _RESERVED:
            raise _damaged(f"{place.path}.name", f"{name} is taken")
        nodes[name] = {**hosts[carrier], **_node_vars(place, carrier, uid=uid, via=hosts[carrier]), **common}
        # A lab's virtual machines use our own images, which boot with systemd.
        by_systemd = is_systemd or hosts[carrier]["ansible_connection"] != "local"
        nodes[name].update(proxy or _kube_proxy_service(lab, name, carriers[carrier], by_systemd=by_systemd))
        nodes[name].update(_image_pulls(lab, place, carriers[carrier], by_systemd=by_systemd))
        nodes[name].update(_balloons(lab, place, carriers[carrier]))
        nodes[name]["kube_proxy_state_dir"] = os.path.join(_home(carriers[carrier], name), "kube-proxy")
        proxies.setdefault(f"proxy_{nodes[name]['ballast_proxy_backend']}", {})[name] = {}
    # The control plane runs on the controller, even when every node is on another machine.
    control_plane = hosts.get(_LOCAL, {"ansible_connection": "local", "ansible_python_interpreter": python})
    instances = {name: _node_instances(lab, place) for name, place in carriers.items()}
    plane = {"control_plane_state_dir": os.path.join(common["ballast_lab"]["lab_dir"], "plane")}
    return {
        "ballast_hosts": {name: {**variables, **instances[name], **common} for name, variables in hosts.items()},
        "ballast_control_plane": {_LOCAL: {**control_plane, **common, **proxy, **plane}},
        "ballast_nodes": nodes,
        **dict(sorted(proxies.items())),
    }


def _kubeadm_groups(lab: _Place, common: Vars, *, python: str) -> dict[str, dict[str, Vars]]:
    """Groups as in a kubespray inventory. Only the connection to each machine is set: playbooks find out what runs there."""
    machines = {
        place.text("name", _NAME): {**_host_vars(place, python=python), **common} for place in lab.places("hosts")
    }
    first = lab.places("nodes")[0].text("name", _NAME)
    if first not in machines:
        raise _damaged("lab.nodes[0].name", f"{first} is not one of the hosts")
    return {
        "k8s_cluster": machines,
        "kube_control_plane": {first: {}},
        "kube_node": {name: {} for name in machines if name != first},
    }


def _lab_facts(lab: _Place) -> Vars:
    lab_dir = lab.text("lab_dir", _PATH)
    server = lab.place("control_plane")
    return {
        "name": lab.text("name", _NAME),
        "kubernetes_version": lab.text("kubernetes_version", _VERSION_TEXT),
        "lab_dir": lab_dir,
        "kubeconfig": os.path.join(lab_dir, "admin.kubeconfig"),
        "api_server": f"https://{with_port(server.address('address'), server.value('port', int))}",
        "node_cidr": lab.network("node_cidr"),
        "pod_cidr": lab.network("pod_cidr"),
        "service_cidr": lab.network("service_cidr"),
    }


def _host_vars(place: _Place, *, python: str) -> Vars:
    connection = place.text("connection", re.compile("local|ssh"))
    if connection == "local":
        return {"ansible_connection": "local", "ansible_python_interpreter": python}
    options = {}
    if place.has("known_hosts"):
        known_hosts = place.text("known_hosts", _PATH)
        arguments = ["-o", f"UserKnownHostsFile={known_hosts}", "-o", "StrictHostKeyChecking=yes"]
        options["ansible_ssh_common_args"] = shlex.join(arguments)
    return {
        "ansible_connection": "ssh",
        "ansible_host": place.address("address"),
        "ansible_user": place.text("user", _USER) if place.has("user") else "root",
        "ansible_ssh_private_key_file": place.text("ssh_key", _PATH),
        "ansible_python_interpreter": "/usr/bin/python3",
        **options,
    }


def _node_vars(place: _Place, carrier: str, *, uid: int, via: Vars) -> Vars:
    netns = place.text("netns", _PATH)
    is_root = via["ansible_user"] == "root" if via["ansible_connection"] == "ssh" else uid == 0
    return {
        "ansible_become": True,
        "ansible_become_method": "ballast.kube.instance",
        # This path exists only in the instance, so a task that would run on the host by mistake fails.
        "ansible_python_interpreter": f"{entry(os.path.basename(netns))}{via['ansible_python_interpreter']}",
        "ballast_instance_netns": netns,
        "ballast_instance_mountns": place.text("mountns", _PATH),
        "ballast_instance_sudo": not is_root,
        "ballast_host": carrier,
        "ballast_address": primary(place.address("address")),
        "ballast_pod_cidr": place.network("pod_cidr"),
        "ballast_labels": dict(place.value("labels", Mapping)),
        "ballast_taints": list(place.value("taints", list)),
        "ballast_proxy_backend": place.text("proxy_backend", _BACKEND),
        "ballast_runtime": place.text("runtime", _NAME),
    }


def _kube_proxy_deployment(lab: _Place) -> Vars:
    """Variables for a DaemonSet that runs kube-proxy; empty if each node has a service for it. Records of earlier versions lack the key."""
    if not lab.has("kube_proxy") or lab.text("kube_proxy", _KUBE_PROXY) == "service":
        return {}
    kubeconfig = os.path.join(lab.text("lab_dir", _PATH), "admin.kubeconfig")
    return {"kube_proxy_deployment": "daemonset", "kube_proxy_admin_kubeconfig": kubeconfig}


def _kube_proxy_service(lab: _Place, name: str, carrier: _Place, *, by_systemd: bool) -> Vars:
    return {
        "kube_proxy_service": _service(lab, name, carrier, "kube-proxy", by_systemd=by_systemd),
        "kube_proxy_config_path": os.path.join(_home(carrier, name), "etc", "kube-proxy.json"),
    }


def _image_pulls(lab: _Place, place: _Place, carrier: _Place, *, by_systemd: bool) -> Vars:
    """`image_pull_proxy_runtime` is the path of the instance's containerd socket on its host."""
    name = place.text("name", _NAME)
    return {
        "image_pull_proxy_kubelet_service": _service(lab, name, carrier, "kubelet", by_systemd=by_systemd),
        "image_pull_proxy_runtime_service": _service(lab, name, carrier, "containerd", by_systemd=by_systemd),
        "image_pull_proxy_runtime": os.path.join(
            os.path.dirname(place.text("mountns", _PATH)), name, "containerd.sock"
        ),
        "image_pull_proxy_node_state_dir": os.path.join(_home(carrier, name), "image-pulls"),
    }


def _balloons(lab: _Place, place: _Place, carrier: _Place) -> Vars:
    """`balloons_slice` is the cgroup of the instance. systemd nests slices at dashes, so dashes in names are replaced."""
    name = place.text("name", _NAME)
    parts = [text.replace("-", "_") for text in (lab.text("name", _NAME), name)]
    return {
        "balloons_slice": join_name(*parts),
        "balloons_kubelet_config": os.path.join(_home(carrier, name), "etc/kubelet.json"),
        "balloons_kubelet_config_dir": os.path.join(_home(carrier, name), "etc/kubelet.conf.d"),
    }


def _node_instances(lab: _Place, carrier: _Place) -> Vars:
    """Options of `kubelet_instance_info` for a host. Labels and taints are omitted: they are free text, and not needed for reading."""
    server, name = lab.place("control_plane"), carrier.text("name", _NAME)
    nodes = [place for place in lab.places("nodes") if place.value("host", str) == name]
    return {
        "node_instances_lab": lab.text("name", _NAME),
        "node_instances_state_dir": os.path.join(carrier.text("state_dir", _PATH), "nodes"),
        "node_instances_list": [_node_instance(place) for place in nodes],
        "node_instances_api_server": f"https://{with_port(server.address('address'), server.value('port', int))}",
        **({"node_instances_gateway": carrier.interface("gateway")} if carrier.has("gateway") else {}),
        **({"node_instances_kube_proxy": lab.text("kube_proxy", _KUBE_PROXY)} if lab.has("kube_proxy") else {}),
    }


def _node_instance(place: _Place) -> Vars:
    return {
        "name": place.text("name", _NAME),
        "address": place.address("address"),
        "pod_cidr": place.network("pod_cidr"),
        "proxy_backend": place.text("proxy_backend", _BACKEND),
        "runtime": place.text("runtime", _NAME),
        **{limit: place.text(limit, _QUANTITY) for limit in ("cpu", "memory") if place.has(limit)},
        **({"pids": place.value("pids", int)} if place.has("pids") else {}),
    }


def _service(lab: _Place, node: str, carrier: _Place, service: str, *, by_systemd: bool) -> str:
    """A systemd unit, or the directory of a runit service."""
    unit = join_name(lab.text("name", _NAME), node, service)
    return unit if by_systemd else os.path.join(_home(carrier, node), "sv", unit)


def _home(carrier: _Place, name: str) -> str:
    """The directory of an instance, on its host."""
    return os.path.join(carrier.text("state_dir", _PATH), "nodes", name)


def _plain(value: Any) -> Any:
    """Marks texts that cannot be templates as trusted, as otherwise `ansible-inventory --list` wraps each of them, which confuses programs
    that read it. Other texts of the record stay unmarked, and Ansible never evaluates them."""
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return trust_as_template(value) if isinstance(value, str) and _INERT.fullmatch(value) else value


class _Place:
    """A mapping in the record, with its path."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping):
            raise _damaged(path, "it is not a mapping")
        self.path = path
        self._value = value

    def has(self, key: str) -> bool:
        return self._value.get(key) is not None

    def value(self, key: str, kind: type[Any]) -> Any:
        found = self._value.get(key)
        if not isinstance(found, kind) or isinstance(found, bool):
            raise _damaged(f"{self.path}.{key}", f"{str(found)[:80]!r} is there")
        return found

    def text(self, key: str, form: re.Pattern[str]) -> str:
        found = str(self.value(key, str))
        if not form.fullmatch(found) or "/../" in f"{found}/":
            raise _damaged(f"{self.path}.{key}", f"{found[:80]!r} is there")
        return found

    def address(self, key: str) -> str:
        """One address per IP family, separated by a comma."""
        return join(self._parsed(key, ipaddress.ip_address))

    def network(self, key: str) -> str:
        return join(self._parsed(key, ipaddress.ip_network))

    def _parsed(self, key: str, parse: Callable[[str], object]) -> list[object]:
        texts = self.value(key, str).split(",")
        for number, text in enumerate(texts):
            if number == _FAMILIES or not _ADDRESS.fullmatch(text):
                raise _damaged(f"{self.path}.{key}", f"{text[:80]!r} is there")
        try:
            return [parse(text) for text in texts]
        except ValueError as error:
            raise _damaged(f"{self.path}.{key}", str(error)) from error

    def place(self, key: str) -> _Place:
        return _Place(self._value.get(key), f"{self.path}.{key}")

    def interface(self, key: str) -> str:
        return join(self._parsed(key, ipaddress.ip_interface))

    def places(self, key: str) -> list[_Place]:
        return [_Place(value, f"{self.path}.{key}[{at}]") for at, value in enumerate(self.value(key, list))]


def _damaged(path: str, found: str) -> AnsibleParserError:
    return _error(
        f"{path}: not as the record of a lab has it",
        found=found,
        remedy="write the record again: ansible-playbook ballast.kube.lab_up",
        id="inventory-record",
    )


def refuse_strategy(name: str) -> None:
    """AnsibleParserError for a strategy with its own connections, which skips the plugin that enters a node."""
    if _OWN_CONNECTIONS in name:
        raise _error(
            f"with the strategy {name} tasks for nodes of a lab would run on their host",
            remedy="run Ansible without Mitogen for this inventory: ANSIBLE_STRATEGY=linear",
            id="inventory-strategy",
        )


def _error(text: str, *, remedy: str, id: str, found: str = "") -> AnsibleParserError:
    rows = [text, *([f"  found: {found}"] if found else []), f"  do:    {remedy}", f"  id:    {id}   ({_PAGE}#{id})"]
    return AnsibleParserError("\n".join(rows))
