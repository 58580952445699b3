# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts by which an installed program's production readiness is judged, and the answers that all programs have in
common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Callable, Generic, Optional, TypeVar

from .._core.engine.context import Context
from .._core.engine.journal import Journal, journal_path
from .._core.engine.kinds import fields
from .._core.engine.plan import ABSENT, Recorded
from .._core.engine.readiness import YES, Answer, Reading, off_reading
from .._core.engine.readiness_common import OpenFiles, read_open_files, unknown_reading
from .._core.host.host import Host
from .._core.text.errors import BallastError, PeerError
from .._core.text.exposition import Sample, parse_exposition
from .._core.text.ip_families import with_port
from .._core.text.json_text import mapping_in
from .._core.text.packages import install_command, read_distribution
from .deployment import AgentEngine
from .program import PROGRAM_KINDS
from .running import AgentKind

_SECONDS = 5
_SHORT = 12  # characters of a digest that suffice to distinguish programs

S = TypeVar("S")


@dataclass(frozen=True)
class ProgramFacts(Generic[S]):
    """`S` is the parsed status of the running program: None if it does not respond, or if its status has another form."""

    state_dir: str
    recorded: tuple[Recorded, ...]
    unfinished: bool  # a run was killed, and no later run has finished its work
    pid: Optional[int]
    log: str
    config: str
    status: Optional[S]
    unlike: tuple[str, ...]  # settings in the file that are not in effect
    config_problem: str  # why the program refuses the file; "" if it accepts it
    missing_packages: tuple[str, ...]
    install: str  # the command that installs them on this machine
    metrics: Optional[tuple[Sample, ...]]  # None if they are disabled or could not be read
    metrics_place: str  # "" if they are disabled
    open_files: OpenFiles
    version: str  # of the program's sources; "" if no program is installed

    @property
    def journal(self) -> str:
        return journal_path(self.state_dir)

    def down(self, like: str) -> str:
        """Why it is not a running program of this version; "" if it is. `like` names one: "a pull proxy"."""
        if self.pid is None:
            return "its service is not running"
        return "" if self.status else f"process {self.pid} runs, but does not respond like {like} of this version"

    @property
    def settings_refused(self) -> str:
        """Which settings of the file are not in effect, or why the file is refused; "" if all are in effect."""
        if self.config_problem:
            return self.config_problem
        return f"its values of {', '.join(self.unlike)} differ from {self.config}" if self.unlike else ""

    @property
    def broken_off(self) -> str:
        """Where an interrupted run is recorded; "" if none is."""
        return f"{self.journal} records an interrupted run" if self.unfinished else ""

    def answer_enabled(self, text: str, how: str) -> Answer:
        titles = tuple(entry.title for entry in self.recorded)
        return Answer(YES, text, f"{self.journal}; {how}", lines=titles)

    @property
    def answer_rollback(self) -> Answer:
        text = f"the journal has the previous state of all {len(self.recorded)}"
        return Answer(YES, text, f"`original` of each entry of {self.journal}")


def read_reading(
    host: Host,
    engine: AgentEngine[Any],
    state_dir: str,
    levels: Mapping[str, Any],
    *,
    feature: str,
    process: str,
    absent: str,
    parse: Callable[[object], Optional[S]],
    metrics: frozenset[str],
    judge: Callable[[ProgramFacts[S]], Reading],
) -> Reading:
    """The reading that `judge` makes of the facts. `levels` is what `AgentEngine.read` returned, `process` the program as
    the operator knows it, `absent` the text for a machine without it, `metrics` the names of the metrics to keep."""
    path = journal_path(state_dir)
    try:
        journal = Journal(path, host=host, kinds=engine.kinds)
    except BallastError as error:
        return unknown_reading(feature, error, path)
    if not journal.recorded and not journal.open:
        return off_reading(feature, absent, f"{path}, which does not exist")
    status = mapping_in(levels, "status")
    unlike, problem = _compare_settings(host, engine.running, status)
    url = _metrics_url(mapping_in(status, "settings").get("metrics"))
    missing = levels["missing_packages"]
    facts = ProgramFacts(
        state_dir=state_dir,
        recorded=journal.recorded,
        unfinished=journal.open,
        pid=levels["pid"],
        log=engine.installation.log,
        config=engine.installation.config,
        status=parse(status),
        unlike=unlike,
        config_problem=problem,
        missing_packages=tuple(missing),
        install=install_command(read_distribution(host), missing),
        metrics=_read_metrics(host, url, metrics),
        metrics_place=url,
        open_files=read_open_files(host, process, levels["pid"]),
        version=_read_version(host, engine.installation.program),
    )
    return judge(facts)


def _compare_settings(host: Host, kind: AgentKind, status: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """The settings in which the running program differs from its file, and why the file cannot be read ("" if it can)."""
    running = mapping_in(status, "settings")
    try:
        settings = kind.file_settings(host)
    except BallastError as error:
        return (), error.in_one_line
    return tuple(sorted(key for key in settings if running and running.get(key) != settings[key])), ""


def _read_metrics(host: Host, url: str, names: frozenset[str]) -> Optional[tuple[Sample, ...]]:
    if not url:
        return None
    try:
        answer = host.request(url, timeout=_SECONDS)
    except PeerError:
        return None
    return parse_exposition(answer.body.decode(errors="replace"), names) if answer.status == 200 else None


def _metrics_url(address: object) -> str:
    """From the program's setting `metrics` (address and port); "" if it is unset."""
    if not isinstance(address, list) or len(address) != 2 or not isinstance(address[1], int):
        return ""
    return f"http://{with_port(str(address[0]), address[1])}/metrics"


def _read_version(host: Host, program: str) -> str:
    """The installed program's version: the start of the digest of its sources."""
    value = PROGRAM_KINDS["program"].read(Context(None, host), program)
    return "" if value == ABSENT else str(fields(value)["digest"])[:_SHORT]
