# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A worker of a fleet run, in a pod: runs the playbook for its slice with ansible-runner, and writes its report.

    python3 -m ansible_collections.ballast.kube.plugins.module_utils._fleet_run.worker canary|slice

The report is a ConfigMap of the slice: an evicted pod takes its log with it, and the termination message of a container holds 4 KiB, the
outcomes of 30 nodes. Exit status 0: the slice came to its end, whatever happened to its nodes. 3: the run may not continue. Any other
is a crash, after which the Job starts another pod.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from .._core.host.host import Host
from .._core.host.local_host import LocalHost
from .._core.kube.connection import connect
from .._core.text.errors import BallastError
from .._core.text.json_text import parse_json
from .boundary import Answer, Boundary, Place
from .messages import MESSAGES
from .objects import NAME, STOPPED, report_path
from .record import SliceRecord
from .report import NO_ANSWER, NOT_BEGUN, is_done, rows_by_record, with_earlier
from .request import INPUT
from .sizes import report_text
from .slices import inventory_of, slice_name

WORK = "/runner/run"
STOP_FILE = "/runner/stopping"
_CRASHED = 1
_TEMPORARY = 75  # EX_TEMPFAIL: the pod had to end before the slice was done
_REPORTS = "ballast.kube.playbook_report"


@dataclass(frozen=True)
class Played:
    """What a playbook reported: `rows` are outcome and text by host, from its last report; `lines` are those of its preview."""

    rows: Mapping[str, Sequence[str]] = field(default_factory=dict)
    not_done: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    failure: str = ""

    @property
    def is_refused(self) -> bool:
        """Whether the playbook was refused before its first change."""
        return bool(self.failure) and not self.rows

    def after(self, result: Mapping[str, Any]) -> Played:
        """With another result of playbook_report."""
        if "stop" in result:  # the result of a batch
            return self
        return replace(
            self,
            rows=result.get("rows", {}),
            not_done=tuple(result.get("not_done", ())),
            lines=self.lines or tuple(result["lines"]),
            failure=result["failure"],
        )


@dataclass(frozen=True)
class Settings:
    """What the run's Secret has for this slice. `inventory` is in the form of a YAML inventory."""

    playbook: str
    acts: bool
    forks: int
    variables: Mapping[str, Any]
    inventory: Mapping[str, Any]

    @property
    def hosts(self) -> tuple[str, ...]:
        return tuple(self.inventory["all"]["hosts"])


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """The exit status of the pod."""
    host = LocalHost()
    try:
        place = place_of(arguments, environ)
        settings = read_settings(host, place.name)
        api = connect(host, "", environ=environ)
        signal.signal(signal.SIGTERM, lambda _number, _frame: host.write(STOP_FILE, b""))
        boundary = Boundary(host, api, place)
        claimed = boundary.claim()
        hosts, played = plan_hosts(settings, claimed)
        if played is None:
            write_work(host, settings, place, hosts)
            played = _run(settings)
        return finish(host, boundary, place, played, settings, claimed.own)
    except BallastError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code + 100


def place_of(arguments: Sequence[str], environ: Mapping[str, str]) -> Place:
    """The slice of this pod. BallastError when arguments or environment are not those of a Job of a fleet run."""
    try:
        (job,) = arguments
        index, namespace, pod = (environ[name] for name in ("JOB_COMPLETION_INDEX", "BALLAST_NAMESPACE", "BALLAST_POD"))
    except (KeyError, ValueError) as error:
        raise MESSAGES.error("fleet-run-worker", reason=repr(error)) from error
    return Place(namespace, NAME, slice_name(job, int(index)), pod, STOP_FILE)


def read_settings(host: Host, name: str) -> Settings:
    """`name` is that of the slice."""
    settings, inventory = host.read(f"{INPUT}/settings.json"), host.read(f"{INPUT}/{name}.json.gz")
    if settings is None or inventory is None:
        raise MESSAGES.error("fleet-run-worker", reason=f"{INPUT} has no settings, or none for {name}")
    row = parse_json(settings)
    return Settings(
        row["playbook"], row["acts"], row["forks"], row["variables"], parse_json(gzip.decompress(inventory))
    )


def plan_hosts(settings: Settings, claimed: Answer) -> tuple[list[str], Optional[Played]]:
    """Hosts for which the playbook runs. A host that failed under an earlier pod of the slice is not retried. With no host left, or when
    the run is over, also the result to report without a run."""
    failed = claimed.own.failed
    left = [name for name in settings.hosts if name not in failed]
    if left and not claimed.stop:
        return left, None
    rows = rows_by_record(settings.hosts, claimed.own)
    return [], Played(rows, tuple(name for name, row in rows.items() if not is_done(row)))


def write_work(host: Host, settings: Settings, place: Place, hosts: Sequence[str]) -> None:
    """Make the directory of ansible-runner. Variables are in a file, as they may be secrets, which must not be in a command line."""
    slice_variables = {
        "namespace": place.namespace,
        "record": place.record,
        "name": place.name,
        "holder": place.holder,
        "stop_file": place.stop_file,
    }
    variables = {**settings.variables, "fleet_slice": slice_variables}
    host.make_directory(WORK, mode=0o700)
    for path, content in (
        ("inventory/hosts.json", json.dumps(inventory_of(hosts, settings.inventory))),
        ("env/extravars", json.dumps(variables)),
        ("project/site.yml", json.dumps([{"import_playbook": f"ballast.kube.{settings.playbook}"}])),
    ):
        host.make_directory(os.path.dirname(f"{WORK}/{path}"), mode=0o700)
        host.write(f"{WORK}/{path}", content.encode(), mode=0o600)
    known_hosts = host.read(f"{INPUT}/known-hosts")
    if known_hosts is not None:
        host.make_directory(os.path.expanduser("~/.ssh"), mode=0o700)
        host.write(os.path.expanduser("~/.ssh/known_hosts"), known_hosts, mode=0o600)


def _run(settings: Settings) -> Played:
    import ansible_runner

    played: list[Played] = [Played()]

    def take(event: Mapping[str, Any]) -> bool:
        """Handle an event. Events are not kept on disk: thousands of nodes have hundreds of thousands."""
        result = _report_in(event)
        if result is not None:
            played[0] = played[0].after(result)
        return False

    ansible_runner.run(
        private_data_dir=WORK,
        playbook="site.yml",
        forks=settings.forks,
        event_handler=take,
        # Without one it takes SIGTERM for itself, and kills the playbook in the middle of a batch.
        cancel_callback=lambda: False,
        envvars={"ANSIBLE_PIPELINING": "1", "ANSIBLE_GATHERING": "explicit", "ANSIBLE_NOCOLOR": "1"},
    )
    return played[0]


def _report_in(event: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
    data = event.get("event_data")
    if event.get("event") != "runner_on_ok" or not isinstance(data, Mapping):
        return None
    result = data.get("res")
    if data.get("task_action") != _REPORTS or not isinstance(result, Mapping):
        return None
    return result if "lines" in result and "failure" in result else None


def finish(
    host: Host, boundary: Boundary, place: Place, played: Played, settings: Settings, earlier: SliceRecord
) -> int:
    """Write the report, if the playbook made one. Returns the worker's exit status. `earlier` is the record that it found."""
    if not (played.rows if settings.acts else played.lines) and not played.is_refused:
        return _CRASHED
    not_begun = {name for name, row in played.rows.items() if row[0] == NOT_BEGUN}
    ended = played.failure.partition("\n")[0] if played.is_refused and settings.acts else ""
    # Hosts that failed in a batch were counted at its end.
    silent = {name for name, row in played.rows.items() if row[0] == NO_ANSWER}
    answer = boundary.count(failed=silent, ended=ended)
    is_ending = bool(not_begun) and not answer.stop and host.stat(place.stop_file) is not None
    if is_ending or not answer.is_holder:
        return _TEMPORARY
    rows = with_earlier(played.rows, earlier) if settings.acts and played.rows else {}
    not_done = {*played.not_done, *earlier.failed} & set(settings.hosts)
    failure = played.failure if played.is_refused else ""
    report = {"rows": rows, "not_done": sorted(not_done), "lines": played.lines, "failure": failure}
    boundary.write_report(report_path(place.namespace, place.name), report_text(report))
    return STOPPED if not_begun or played.is_refused else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:], os.environ))
