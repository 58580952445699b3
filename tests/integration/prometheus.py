# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prometheus of Debian, on loopback, with the rules that are shipped."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Optional

import yaml

from tests.integration.debian import unpacked
from tests.integration.plane_client import eventually
from tests.integration.processes import running
from tests.integration.wire import entered

FILES = Path(__file__).resolve().parents[2] / "roles/readiness/files"
RULES, DASHBOARD = FILES / "ballast-rules.yml", FILES / "ballast-dashboard.json"
_SECONDS = 30
_SCRAPE_SECONDS = 2
_WINDOW, _LASTING = "15s", "2s"  # of the copy whose alerts are to fire in seconds


@dataclass(frozen=True)
class Target:
    """`tls`: ca, certificate and key of a client."""

    job: str
    address: str
    tls: Optional[tuple[str, str, str]] = None


@dataclass(frozen=True)
class Prometheus:
    address: str

    def ask(self, path: str, **query: str) -> Any:
        """`data` of the answer; ValueError with its words where it refuses."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(error.read().decode()) from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def names(self) -> set[str]:
        """Of every metric that was scraped or recorded."""
        return set(self.ask("label/__name__/values"))

    def up(self) -> set[str]:
        """Jobs all of whose targets answered at the last scrape."""
        return {row["metric"]["job"] for row in self.query("min by (job) (up) == 1")}

    def fired(self) -> set[str]:
        """Alerts that have fired so far."""
        found = self.query('count by (alertname) (last_over_time(ALERTS{alertstate="firing"}[1h]))')
        return {row["metric"]["alertname"] for row in found}


def promtool(*words: str) -> subprocess.CompletedProcess[str]:
    program = unpacked("prometheus") / "usr/bin/promtool"
    return subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60, check=False)


def hastened(rules: str) -> str:
    """The rules with every time that something has to last cut to seconds. What they ask is the same."""
    return re.sub(r"\bfor: \d+m", f"for: {_LASTING}", re.sub(r"\[\d+[mh]\]", f"[{_WINDOW}]", rules))


@contextmanager
def prometheus(place: Path, targets: Sequence[Target]) -> Iterator[Prometheus]:
    """Scrapes all of them every two seconds, with the hastened rules; until the block ends."""
    place.mkdir()
    rules = place / "rules.yml"
    rules.write_text(hastened(RULES.read_text(encoding="utf-8")), encoding="utf-8")
    every = f"{_SCRAPE_SECONDS}s"
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(rules)],
        "scrape_configs": [_job(number, target) for number, target in enumerate(targets)],
    }
    (place / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    server = Prometheus(f"127.0.0.1:{free_port()}")
    argv = [
        str(unpacked("prometheus") / "usr/bin/prometheus"),
        f"--config.file={place}/prometheus.yml",
        f"--storage.tsdb.path={place}/data",
        f"--web.listen-address={server.address}",
        "--log.level=warn",
    ]
    with running(argv, place / "prometheus.log") as process:

        def answers() -> bool:
            assert process.poll() is None, (place / "prometheus.log").read_text(encoding="utf-8")
            try:
                return server.query("vector(1)") != []
            except (OSError, ValueError):
                return False

        eventually(answers, what="Prometheus answers")
        yield server


def _job(number: int, target: Target) -> dict[str, Any]:
    """Each target in a section of its own, for its own authority. Sections of one name are refused: a label names the job."""
    found: dict[str, Any] = {
        "job_name": f"{target.job}-{number}",
        "static_configs": [{"targets": [target.address], "labels": {"job": target.job}}],
    }
    if target.tls:
        ca, certificate, key = target.tls
        found["scheme"] = "https"
        found["tls_config"] = {"ca_file": ca, "cert_file": certificate, "key_file": key}
    return found


@contextmanager
def outside(namespace: str, url: str) -> Iterator[str]:
    """An address of this machine where the metrics of `url`, which is on the loopback of a network namespace, are told."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                with entered(namespace), urllib.request.urlopen(url, timeout=_SCRAPE_SECONDS) as answer:
                    status, body, kind = 200, answer.read(), answer.headers["Content-Type"]
            except OSError as error:
                status, body, kind = 502, str(error).encode(), "text/plain"
            with suppress(OSError):  # Prometheus has gone after its time, as of a kube-proxy that does not answer
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    """Of loopback."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def alerts(rules: str) -> Mapping[str, str]:
    """The expression of each alert, by its name."""
    groups = yaml.safe_load(rules)["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"] if "alert" in rule}


def expressions(dashboard: Mapping[str, Any]) -> list[str]:
    """Those of its panels, of every instance, over a time that a test takes."""
    told = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    return [text.replace("$__rate_interval", _WINDOW).replace("$instance", ".*") for text in told]


def metric_names(expression: str) -> set[str]:
    """What is left of an expression without its strings, labels, functions and words of the language."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^]]*\]', " ", re.sub(r'"[^"]*"', '""', expression))
    bare = re.sub(r"\b(by|on|group_left) \([^)]*\)", " ", bare)
    words = re.findall(r"(?<![\w.])[a-zA-Z_][\w:]*(?!\w*\s*\()", bare)
    return set(words) - {"and", "or", "unless", "bool", "by", "on", "group_left"}
