# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError, Problems
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.given import Given
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.request import (
    PLAYBOOKS,
    Request,
    batch_sizes,
    parse_amount,
    read_request,
)
from ansible_collections.ballast.kube.plugins.plugin_utils.fleet.variables import known_names, unknown_variables

ROOT = Path(__file__).resolve().parents[3]
NODES = [f"n{number}" for number in range(1, 11)]
GROUPS = {"all": NODES, "workers": NODES[2:], "west": NODES[:2]}
# Of an inventory of kubespray: roles/kubernetes/control-plane/defaults/main/kube-proxy.yml of kubernetes-sigs/kubespray.
KUBESPRAY = [
    '"',
    "kube_proxy_bind_address",
    "kube_proxy_client_accept_content_types",
    "kube_proxy_client_burst",
    "kube_proxy_client_content_type",
    "kube_proxy_client_kubeconfig",
    "kube_proxy_client_qps",
    "kube_proxy_config_sync_period",
    "kube_proxy_conntrack_max_per_core",
    "kube_proxy_conntrack_min",
    "kube_proxy_conntrack_tcp_close_wait_timeout",
    "kube_proxy_conntrack_tcp_established_timeout",
    "kube_proxy_enable_profiling",
    "kube_proxy_healthz_bind_address",
    "kube_proxy_masquerade_all",
    "kube_proxy_masquerade_bit",
    "kube_proxy_min_sync_period",
    "kube_proxy_sync_period",
    "kube_proxy_exclude_cidrs",
    "kube_proxy_scheduler",
    "kube_proxy_strict_arp",
    "kube_proxy_tcp_timeout",
    "kube_proxy_tcp_fin_timeout",
    "kube_proxy_udp_timeout",
    "kube_proxy_metrics_bind_address",
    "kube_proxy_nodeport_addresses",
    "kube_proxy_nodeport_addresses_cidr",
    "kube_proxy_oom_score_adj",
    "kube_proxy_port_range",
    "kube_proxy_mode",
    "kube_proxy_remove",
    "kube_proxy_deployed",
]


def match(pattern: str) -> list[str]:
    """Of unions and one exclusion, as Ansible reads a pattern."""
    parts = re.split("[:,]", pattern)
    left_out = {host for part in parts if part.startswith("!") for host in GROUPS.get(part[1:], [part[1:]])}
    chosen = {host for part in parts for host in GROUPS.get(part, [part] if part in NODES else [])}
    return [host for host in NODES if host in chosen - left_out]


def request(
    playbook: str, *, hosts: Mapping[str, Mapping[str, Any]] = {}, check: bool = False, **variables: Any
) -> Request:
    found = Given(
        value=variables.get,
        host_value=lambda host, name: {**hosts.get(host, {}), **variables}.get(name),
        match=match,
        extra=variables,
        inventory=lambda names: {name for host in names for name in hosts.get(host, {})},
        is_check=check,
    )
    return read_request(playbook, found, known_names(LocalHost(), PLAYBOOKS[playbook].all_prefixes))


def problems(playbook: str, **variables: Any) -> list[str]:
    with pytest.raises(BallastError) as caught:
        request(playbook, **variables)
    return [str(one) for one in (caught.value.problems if isinstance(caught.value, Problems) else [caught.value])]


def migrate(**variables: Any) -> Request:
    return request("kube_proxy_migrate", kube_proxy_hosts="all", kube_proxy_mode="nftables", **variables)


def test_all_problems_are_reported_at_once() -> None:
    found = problems("kube_proxy_migrate", kube_proxy_mod="nftables", kube_proxy_serial=[0], kube_proxy_max_fail="many")
    assert [one.splitlines()[0] for one in found] == [
        "kube_proxy_hosts is not set: it selects the nodes",
        "kube_proxy_mod is not a variable of this playbook",
        "kube_proxy_serial: 0 is not a number of nodes or a share of them",
        "kube_proxy_max_fail: many is not a number of nodes or a share of them",
        "kube_proxy_mode: nothing is not iptables or ipvs or nftables or ballast",
    ]
    assert "did you mean kube_proxy_mode?" in found[1]


@pytest.mark.parametrize("playbook", [name for name, row in PLAYBOOKS.items() if row.is_fleet])
def test_no_playbook_takes_all_hosts_by_default(playbook: str) -> None:
    prefix = PLAYBOOKS[playbook].prefix
    assert f"{prefix}_hosts is not set" in problems(playbook)[0]
    assert f"{prefix}_hosts is not set" in problems(playbook, **{f"{prefix}_hosts": ""})[0]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("west9", "no host of the inventory matches west9"),
        ("west:n77,web", "no host of the inventory matches n77, web"),
        ("west:n3,n4", "no host of the inventory matches west:n3"),
        ("west:!west", "selects no host"),
    ],
)
def test_a_selection_that_names_no_node_is_refused(pattern: str, text: str) -> None:
    (found,) = problems("kube_proxy_audit", kube_proxy_hosts=pattern)
    assert text in found


@pytest.mark.parametrize(
    "pattern",
    [
        "fd00::1",
        "fd00::1,fd00::2",
        ["fd00::2", "fd00::1"],
        "~n[0-9]+[.]x",
        "a[1:]",
        ["n1.x", "a:!fd00*"],
        "n1.x a[0]",
    ],
)
def test_a_pattern_selects_what_it_selects_in_a_play(pattern: Any) -> None:
    """An address of IPv6 has colons, and a regular expression has brackets."""
    inventory = InventoryManager(DataLoader(), ["localhost,"])
    inventory.add_group("a")
    for host in ("fd00::1", "n1.x", "fd00::2"):
        inventory.add_host(host, group="a")
    expected = {host.name for host in inventory.get_hosts(pattern)}
    found = Given(
        value={"kube_proxy_hosts": pattern, "kube_proxy_canaries": pattern, "kube_proxy_mode": "ipvs"}.get,
        host_value=lambda _host, _name: None,
        match=lambda text: [host.name for host in inventory.get_hosts(text)],
    )
    made = read_request("kube_proxy_migrate", found, [])
    assert expected
    assert set(made.hosts) == set(made.canaries) == expected


def test_canaries_are_of_the_selection() -> None:
    (found,) = problems(
        "kube_proxy_migrate", kube_proxy_hosts="workers", kube_proxy_mode="ipvs", kube_proxy_canaries=["n1", "n3"]
    )
    assert "kube_proxy_canaries: n1: not among kube_proxy_hosts" in found
    assert migrate(kube_proxy_canaries="n4,n3").canaries == ("n3", "n4")


def test_a_run_acts_when_it_is_confirmed_and_a_rollback_always() -> None:
    assert not migrate().acts
    assert not migrate(kube_proxy_confirm="false").acts
    assert migrate(kube_proxy_confirm="true").acts
    assert migrate(check=True).acts
    assert request("kube_proxy_rollback", kube_proxy_hosts="all").acts
    assert (
        "kube_proxy_confirm: maybe is not true or false"
        in problems("kube_proxy_cleanup", kube_proxy_hosts="all", kube_proxy_confirm="maybe")[0]
    )


def test_the_kubeconfig_of_a_daemonset_is_asked_for_before_any_node() -> None:
    hosts = {"n3": {"kube_proxy_deployment": "daemonset"}}
    (found,) = problems("kube_proxy_migrate", hosts=hosts, kube_proxy_hosts="all", kube_proxy_mode="nftables")
    assert found.startswith("kube_proxy_admin_kubeconfig is not set: a DaemonSet runs kube-proxy on n3")
    hosts["n3"]["kube_proxy_admin_kubeconfig"] = "/root/admin.conf"
    assert migrate(hosts=hosts).admin_kubeconfig == "/root/admin.conf"
    assert migrate(hosts=hosts, kube_proxy_admin_kubeconfig="/a").admin_kubeconfig == "/a"


def test_an_answer_of_a_survey_that_was_left_empty_is_none() -> None:
    """AWX gives such variables the value ""."""
    names = ("canaries", "serial", "max_fail", "pause", "gate_query", "gate_prometheus", "gate_threshold", "confirm")
    assert migrate(**{f"kube_proxy_{name}": "" for name in names}) == migrate()


def test_the_service_proxy_takes_no_place_of_a_daemonset() -> None:
    hosts = {"n3": {"kube_proxy_deployment": "daemonset"}}
    for variables in ({"hosts": hosts}, {"kube_proxy_admin_kubeconfig": "/a"}):
        (found,) = problems("kube_proxy_migrate", kube_proxy_hosts="all", kube_proxy_mode="ballast", **variables)
        assert found.startswith(
            "kube_proxy_mode: ballast is not iptables or ipvs or nftables, where a DaemonSet runs kube-proxy"
        )
    assert request("kube_proxy_migrate", kube_proxy_hosts="all", kube_proxy_mode="ballast").mode == "ballast"


def test_max_fail_is_a_number_of_nodes_or_a_share_of_the_selection() -> None:
    assert [migrate(kube_proxy_max_fail=most).max_fail for most in (None, 2, "3", "25%", "5%")] == [0, 2, 3, 2, 0]


def test_a_gate_by_a_query_is_whole() -> None:
    found = problems("kube_proxy_migrate", kube_proxy_hosts="all", kube_proxy_mode="ipvs", kube_proxy_gate_query="up")
    assert [one.split(" is not set")[0] for one in found] == [
        "kube_proxy_gate_prometheus",
        "kube_proxy_gate_threshold",
    ]
    gate = migrate(
        kube_proxy_gate_query="up",
        kube_proxy_gate_prometheus="http://p:9090/",
        kube_proxy_gate_threshold="0.5",
        kube_proxy_gate_command=["true", 1],
        kube_proxy_pause="30",
    ).gate
    assert gate == {
        "pause": 30,
        "command": ["true", "1"],
        "query": "up",
        "prometheus": "http://p:9090",
        "threshold": 0.5,
    }
    assert (
        "is not a list of words"
        in problems(
            "kube_proxy_migrate", kube_proxy_hosts="all", kube_proxy_mode="ipvs", kube_proxy_gate_command="rm -r"
        )[0]
    )


def test_a_request_survives_its_way_through_the_playbook() -> None:
    asked = migrate(kube_proxy_canaries="n2", kube_proxy_plan_file="/root/plan.json", kube_proxy_serial=[1, "20%"])
    assert Request.from_result(asked.as_result()) == asked


def unknown(
    *, extra: Iterable[str] = (), inventory: Iterable[str] = (), prefixes: Iterable[str] = ("kube_proxy",)
) -> list[str]:
    known = known_names(LocalHost(), prefixes)
    return [str(one) for one in unknown_variables(known, prefixes, extra=extra, inventory=inventory)]


@pytest.mark.parametrize(
    ("prefixes", "name", "nearest"),
    [
        (["kube_proxy"], "kube_proxy_probe_servce", "kube_proxy_probe_service"),
        (["kube_proxy"], "kube_proxy_max_fails", "kube_proxy_max_fail"),
        (["kube_proxy"], "kubeproxy_hosts", "kube_proxy_hosts"),
        (["image_pull_proxy"], "image_pulls_hosts", "image_pull_proxy_hosts"),
        (["image_pull_proxy"], "image_pull_proxy_max_inflight", "image_pull_proxy_max_in_flight"),
        (["balloons"], "balloons_slics", "balloons_slices"),
        (["lab"], "lab_node_count", "lab_node"),
        (["readiness"], "readiness_canaries", "readiness_canary"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_nearest(prefixes: list[str], name: str, nearest: str) -> None:
    (found,) = unknown(extra=[name], prefixes=prefixes)
    assert f"did you mean {nearest}?" in found


def test_a_misspelt_variable_of_the_inventory_is_refused() -> None:
    (found,) = unknown(inventory=["kube_proxy_servce", "kube_proxy_service"])
    assert "did you mean kube_proxy_service?" in found


def test_an_inventory_of_kubespray_is_accepted() -> None:
    assert unknown(inventory=KUBESPRAY) == []
    assert unknown(inventory=["image_pull_policy", "image_pull_secrets"], prefixes=["image_pull_proxy"]) == []
    assert unknown(extra=["ansible_user", "kube_version"]) == []


def used_names(prefix: str, paths: Iterable[Path]) -> set[str]:
    """Variables of the prefix that files read, without what they register, set or define themselves."""
    names: set[str] = set()
    for path in paths:
        text = re.sub(r"^\s*#.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        own = set(re.findall(rf"(?:register|loop_var): ({prefix}\w+)", text))
        own |= set(re.findall(rf"^\s*({prefix}\w+):", text, flags=re.MULTILINE))
        names |= set(re.findall(rf"(?<![\w./-])({prefix}_\w+)(?![\w.]*\.yml)", text)) - own
    return names


def test_every_variable_that_the_playbooks_of_kube_proxy_read_is_known() -> None:
    paths = [
        *(ROOT / "playbooks").glob("kube_proxy_*.yml"),
        *(ROOT / "playbooks/tasks").glob("kube_proxy_*.yml"),
        ROOT / "playbooks/vars/kube_proxy.yml",
    ]
    internal = set()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        internal |= set(re.findall(r"register: (\w+)", text)) | set(
            re.findall(r"^ *(kube_proxy_\w+):", text, re.MULTILINE)
        )
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py")} | {path.stem for path in paths}
    reports = {"kube_proxy_batch", "kube_proxy_way_back", "kube_proxy_outcome", "kube_proxy_preview"}
    used = used_names("kube_proxy", paths) - internal - modules - reports
    assert "kube_proxy_probe_service" in used
    assert used - set(known_names(LocalHost(), ["kube_proxy"])) == set()


def test_every_variable_is_explained() -> None:
    page = (ROOT / "docs/reference/kube-proxy-backends.md").read_text(encoding="utf-8")
    own = {name for name in known_names(LocalHost(), ["kube_proxy"]) if not re.search(rf"`{name}`", page)}
    options = (ROOT / "plugins/doc_fragments/_kube_proxy.py").read_text(encoding="utf-8")
    options += (ROOT / "plugins/modules/kube_proxy.py").read_text(encoding="utf-8")
    assert {name for name in own if f"  {name.removeprefix('kube_proxy_')}:" not in options} == set()


@pytest.mark.parametrize(
    ("value", "amount"),
    [
        (1, 1),
        ("5", 5),
        ("10%", 0.1),
        ("2.5%", 0.025),
        ("100%", 1.0),
        ("101%", None),
        ("x", None),
        (True, None),
        (-1, None),
    ],
)
def test_an_amount_of_nodes(value: Any, amount: Any) -> None:
    assert parse_amount(value) == amount


@given(
    st.lists(st.one_of(st.integers(1, 50), st.integers(1, 100).map(lambda share: f"{share}%")), min_size=1, max_size=4),
    st.integers(0, 400),
    st.integers(0, 400),
)
def test_batches_are_all_nodes_in_sizes_of_the_selection(serial: list[Any], changing: int, done: int) -> None:
    sizes = batch_sizes(serial, selected=changing + done, changing=changing)
    assert sum(sizes) == changing
    assert all(size > 0 for size in sizes)
    whole = batch_sizes(serial, selected=changing + done, changing=changing + done)
    assert sizes[:-1] == whole[: max(0, len(sizes) - 1)], "a run that goes on has batches of the same sizes"


def test_the_default_batches_of_500_nodes() -> None:
    assert batch_sizes([1, 5, "10%"], selected=500, changing=500) == [1, 5, *[50] * 9, 44]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "is not a file that can be read"),
        ("nodes:\n  - name: n1\n labels: {}\n", "is not a YAML file"),
        ("a: 1\n---\nb: 2\n", "is not a YAML file"),
        ("- name: n1\n", "is not a topology, which is a mapping"),
        ("", ""),
        ("nodes: []\n", ""),
    ],
)
def test_a_topology_file_is_read_before_anything_is_asked_of_the_lab(
    tmp_path: Path, content: Optional[str], found: str
) -> None:
    path = tmp_path / "lab.yml"
    if content is not None:
        path.write_text(content)
    if not found:
        request("lab_up", lab_topology=str(path))
        return
    (problem,) = problems("lab_up", lab_topology=str(path))
    assert problem.startswith(f"lab_topology: {path} {found}\n  found: ")
    request("lab", lab_topology=str(path))  # of a removal, which does not need it


def test_a_missing_image_archive_is_reported_with_the_topology_file(tmp_path: Path) -> None:
    (tmp_path / "app.tar").write_text("")
    assert len(problems("lab_up", lab_archive=str(tmp_path), lab_topology="/nowhere.yml")) == 2
    request("lab_up", lab_archive=str(tmp_path / "app.tar"))


def test_paths_of_files_begin_where_the_playbook_is_called() -> None:
    """Ansible looks for a file beside the playbook, which is that of the installed collection."""
    for name, variable in (
        ("lab_prepare.yml", "lab_topology"),
        ("lab_prepare.yml", "lab_bin_path"),
        ("tasks/archive.yml", "lab_archive"),
    ):
        assert f"{variable} | realpath" in (ROOT / "playbooks" / name).read_text()


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"lab_output": "yaml", "lab_ready_seconds": "soon"}, ["lab_output: yaml", "lab_ready_seconds: soon"]),
        ({"lab_nodes": "three", "lab_target": "cloud"}, ["lab_nodes: three", "lab_target: cloud"]),
        ({"lab_output": "", "lab_nodes": "3", "lab_hosts": 2, "lab_ready_seconds": "-1", "lab_engine": "kvm"}, []),
    ],
)
def test_values_that_are_read_late_are_checked_before_a_lab_is_made(
    variables: dict[str, Any], found: list[str]
) -> None:
    shown = problems("lab_up", **variables) if found else request("lab_up", **variables) and []
    assert sorted(one.partition(" is not ")[0] for one in shown) == sorted(found)
