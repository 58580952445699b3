# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What kube-proxy says of itself. The metrics are in the form in which kube-proxy 1.29 (without a family) and 1.37 write them."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.ballast.kube.plugins.module_utils._core.host.host import Response
from ansible_collections.ballast.kube.plugins.module_utils._core.host.web import no_answer_error
from ansible_collections.ballast.kube.plugins.module_utils._core.text.exposition import Sample, parse_exposition
from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.health import (
    SYNC_METRICS,
    read_lasting_problem,
    read_mode,
    read_problem,
    read_samples,
    read_version,
    sync_problem,
)
from tests.unit.fakes import FakeHost

METRICS, HEALTHZ = "http://127.0.0.1:10249", "http://127.0.0.1:10256"
OLD = """\
# HELP kubernetes_build_info [BETA] A metric with a constant '1' value
# TYPE kubernetes_build_info gauge
kubernetes_build_info{build_date="2026-01-01T00:00:00Z",git_version="v1.29.15",go_version="go1.23",minor="29"} 1
# HELP kubeproxy_sync_proxy_rules_endpoint_changes_pending [ALPHA] Pending proxy rules Endpoint changes
# TYPE kubeproxy_sync_proxy_rules_endpoint_changes_pending gauge
kubeproxy_sync_proxy_rules_endpoint_changes_pending 0
kubeproxy_sync_proxy_rules_iptables_restore_failures_total 0
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds 1.7639052001e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds 1.7639052002e+09
kubeproxy_sync_proxy_rules_service_changes_pending 0
kubeproxy_sync_proxy_rules_duration_seconds_bucket{le="+Inf"} 2
process_cpu_seconds_total 0.52
"""
NEW = """\
kubernetes_build_info{git_version="v1.37.1+lab.1",major="1"} 1
kubeproxy_sync_proxy_rules_endpoint_changes_pending{ip_family="IPv4"} 0
kubeproxy_sync_proxy_rules_endpoint_changes_pending{ip_family="IPv6"} 0
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv4"} 1.763905200e+09
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds{ip_family="IPv6"} 1.763905200e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"} 1.763905201e+09
kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv6"} 1.763905202e+09
kubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family="IPv4"} 0
kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total{ip_family="IPv4"} 0
kubeproxy_sync_proxy_rules_service_changes_pending{ip_family="IPv4"} 0
kubeproxy_sync_proxy_rules_service_changes_pending{ip_family="IPv6"} 0
"""
PREFIX = "kubeproxy_sync_proxy_rules_"
FIRST = "its first synchronisation has not finished"


def samples(text: str) -> tuple[Sample, ...]:
    return parse_exposition(text, SYNC_METRICS)


def with_line(text: str, name: str, value: str) -> str:
    lines = [f"{PREFIX}{name} {value}" if line.startswith(f"{PREFIX}{name} ") else line for line in text.splitlines()]
    assert lines != text.splitlines()
    return "\n".join(lines)


@pytest.mark.parametrize("text", [OLD, NEW])
def test_one_that_has_written_all_is_in_order(text: str) -> None:
    assert sync_problem(samples(text)) == ""


@pytest.mark.parametrize(
    ("text", "name", "value", "reason"),
    [
        (OLD, "last_timestamp_seconds", "0", FIRST),
        (OLD, "last_queued_timestamp_seconds", "1.7639052003e+09", "changes wait to be written"),
        (OLD, "last_queued_timestamp_seconds", "0", ""),
        (OLD, "last_queued_timestamp_seconds", "1.7639052002e+09", ""),
        (OLD, "endpoint_changes_pending", "3", "3 changes wait to be written"),
        (OLD, "service_changes_pending", "1", "1 changes wait to be written"),
        (OLD, "iptables_restore_failures_total", "2", f"{PREFIX}iptables_restore_failures_total is 2"),
        (NEW, 'last_timestamp_seconds{ip_family="IPv6"}', "0", "changes wait to be written (IPv6)"),
        (NEW, 'last_queued_timestamp_seconds{ip_family="IPv4"}', "1.8e+09", "changes wait to be written (IPv4)"),
        (NEW, 'service_changes_pending{ip_family="IPv6"}', "7", "7 changes wait to be written (IPv6)"),
        (
            NEW,
            'nftables_sync_failures_total{ip_family="IPv4"}',
            "1",
            f"{PREFIX}nftables_sync_failures_total (IPv4) is 1",
        ),
        (
            NEW,
            'nftables_cleanup_failures_total{ip_family="IPv4"}',
            "1",
            f"{PREFIX}nftables_cleanup_failures_total (IPv4) is 1",
        ),
    ],
)
def test_what_is_not_in_order_is_told(text: str, name: str, value: str, reason: str) -> None:
    assert sync_problem(samples(with_line(text, name, value))) == reason


def test_a_family_that_was_never_written_is_waited_for() -> None:
    text = "".join(f"{line}\n" for line in NEW.splitlines() if 'last_timestamp_seconds{ip_family="IPv6"}' not in line)
    assert sync_problem(samples(text)) == "changes wait to be written (IPv6)"


@pytest.mark.parametrize("text", ["", "<html>not found</html>", "kubeproxy_", "kubeproxy_x{", "kubeproxy_x one"])
def test_what_is_no_metrics_is_not_in_order(text: str) -> None:
    assert samples(text) == ()
    assert sync_problem(samples(text)) == FIRST


@given(st.lists(st.text(max_size=20).map(lambda tail: f"{PREFIX}last_timestamp_seconds{tail}"), max_size=4))
def test_no_text_is_too_wrong_to_be_read(lines: list[str]) -> None:
    sync_problem(samples("\n".join(lines)))


def machine(mode: str = "nftables", *, metrics: str = NEW, livez: int = 200, healthz: int = 200) -> FakeHost:
    host = FakeHost()
    for port in (10249, 10256):
        host.given_port(port)
    host.answer(f"{METRICS}/proxyMode", Response(status=200, body=mode.encode()))
    host.answer(f"{METRICS}/metrics", Response(status=200, body=metrics.encode()))
    host.answer(f"{HEALTHZ}/livez", Response(status=livez, body=b""))
    host.answer(f"{HEALTHZ}/healthz", Response(status=healthz, body=b""))
    return host


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        (machine(), ""),
        (machine("nftables\n"), ""),
        (machine("iptables"), "it reports mode iptables"),
        (machine("404 page not found"), "it does not respond"),
        (FakeHost(), "it does not respond"),
        (machine(livez=503), "it returns 503 on /livez"),
        (machine(livez=503, healthz=200), "it returns 503 on /livez"),
        (machine(livez=200, healthz=503), ""),  # the Node is being removed
        (machine(livez=404, healthz=200), ""),  # before 1.29
        (machine(livez=404, healthz=503), "it returns 503 on /livez"),
        (machine(metrics=""), FIRST),
    ],
)
def test_all_gates_are_asked(host: FakeHost, reason: str) -> None:
    assert read_problem(host, {}, "nftables") == reason
    assert host.effects == []


def test_a_health_port_that_is_not_there_is_told_also_when_it_goes_between_two_questions() -> None:
    host = FakeHost()
    for port in (10249, 10256):
        host.given_port(port)
    host.answer(f"{METRICS}/proxyMode", Response(status=200, body=b"nftables"))
    assert read_problem(host, {}, "nftables") == "its health port does not respond"
    host.answer(f"{HEALTHZ}/livez", Response(status=404, body=b""))
    assert read_problem(host, {}, "nftables") == "its health port does not respond"


def test_one_that_does_not_answer_has_neither_mode_nor_version_nor_metrics() -> None:
    assert (read_mode(FakeHost(), {}), read_version(FakeHost(), {}), read_samples(FakeHost(), {})) == ("", "", ())


def test_what_another_user_s_program_says_at_its_port_is_not_kube_proxy_s() -> None:
    host = FakeHost()
    host.answer(METRICS, Response(status=200, body=b"nftables"))
    assert read_mode(host, {}) == "", "nobody is known to listen there"
    host.given_port(10249, uid=65534)
    assert (read_mode(host, {}), read_version(host, {})) == ("", "")
    host.given("/proc/net/tcp", "sl\n")
    host.given_port(10249)
    assert read_mode(host, {}) == "nftables"

    def taken(_url: str, _body: Optional[bytes]) -> Response:
        """It ended, and another program took the port and answered."""
        host.given("/proc/net/tcp", (host.read("/proc/net/tcp") or b"").replace(b" 0 11249", b" 0 9"))
        return Response(status=200, body=b"nftables")

    host.answer(f"{METRICS}/proxyMode", taken)
    assert read_mode(host, {}) == ""


@pytest.mark.parametrize(("text", "version"), [(OLD, "v1.29.15"), (NEW, "v1.37.1"), ("", "")])
def test_the_version_is_that_of_the_release(text: str, version: str) -> None:
    assert read_version(machine(metrics=text), {}) == version


def test_a_busy_node_has_time_to_write_its_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    host = FakeHost()
    host.given_port(10249)

    def request(url: str, *, timeout: float) -> Response:
        if timeout < 15:
            raise no_answer_error("GET", url, TimeoutError("timed out"))
        return Response(200, NEW.encode())

    monkeypatch.setattr(host, "request", request)
    assert read_version(host, {}) == "v1.37.1"


@pytest.mark.parametrize(("seconds", "expected"), [(10, ""), (3600, "changes wait to be written (IPv4)")])
def test_changes_get_time_to_be_written(seconds: float, expected: str) -> None:
    host = FakeHost()
    host.given_port(10249)
    host.given_port(10256)
    host.answer(f"{METRICS}/proxyMode", Response(200, b"nftables"))
    host.answer(f"{HEALTHZ}/livez", Response(200, b"ok"))
    written, begun = host.monotonic() + seconds, host.monotonic()
    waiting = NEW.replace(
        f'{PREFIX}last_queued_timestamp_seconds{{ip_family="IPv4"}} 1.763905200e+09',
        f'{PREFIX}last_queued_timestamp_seconds{{ip_family="IPv4"}} 1.763905209e+09',
    )
    host.answer(
        f"{METRICS}/metrics",
        lambda _url, _body: Response(200, (NEW if host.monotonic() >= written else waiting).encode()),
    )
    assert read_problem(host, {}, "nftables") == "changes wait to be written (IPv4)"
    assert read_lasting_problem(host, {}, "nftables") == expected
    assert host.monotonic() - begun < 40
