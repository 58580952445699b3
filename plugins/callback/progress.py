# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# The callbacks that this one extends have no annotations.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: Show progress, waits and results of the collection's playbooks
version_added: 0.1.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - Prints a line for each step that ends, and on a terminal one more line that shows the step at work, how long it
    has been, and what it waits for. Without a terminal, or with E(NO_COLOR) set, it prints plain lines only.
  - Modules of this collection tell of their progress while they run; their events are read from files on the
    machine that Ansible runs on. A task that tells nothing gets one line when it ends.
  - A failed task prints the message of its module as the module wrote it.
  - Progress and failures go to standard error. Standard output has the messages of M(ansible.builtin.debug), a list
    of texts as lines, and the differences of C(--diff).
  - With C(-v) the output is that of P(ansible.builtin.default#callback), and plain lines of progress beside it.
extends_documentation_fragment:
  - ansible.builtin.default_callback
  - ansible.builtin.result_format_callback
options:
  events:
    description:
      - Files of events, which need not exist yet. What is in them at the start is left out.
      - Of a play that sets the variable C(ballast_events), as those of this collection do, the file that it names is read too.
    type: pathlist
    default: []
    env:
      - name: BALLAST_EVENTS
    ini:
      - section: callback_progress
        key: events
requirements:
  - Set as the standard output callback, for example with E(ANSIBLE_STDOUT_CALLBACK=ballast.kube.progress).
"""

import atexit
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from ansible import context
from ansible.plugins.callback.default import CallbackModule as Default
from ansible.template import Templar

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, EventStream
from ansible_collections.ballast.kube.plugins.module_utils._core.host.bounded import open_file
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import last_lines
from ansible_collections.ballast.kube.plugins.module_utils._core.text.redaction import redact
from ansible_collections.ballast.kube.plugins.plugin_utils.render import (
    BAD,
    BUSY,
    OK,
    QUIET_SECONDS,
    Renderer,
    line,
    plain_text,
)

_POLL_SECONDS = 0.1
_READ_MAX = 2**20
# Actions that decide and never act: a line for each would tell nobody anything.
_QUIET = {
    "add_host", "assert", "debug", "fail", "gather_facts", "group_by", "import_role", "import_tasks", "include_role",
    "include_tasks", "include_vars", "meta", "set_fact", "set_stats", "setup", "validate_argument_spec",
}  # fmt: skip
_ERASE = "\r\x1b[K"


class EventFile:
    """The events that come into a file from now on. It may be absent, be replaced or be truncated."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream = EventStream()
        found = self._stat()
        self._inode = found.st_ino if found else 0
        self._offset = found.st_size if found else 0

    def poll(self) -> list[Event]:
        found = self._stat()
        if found is None:
            return []
        if found.st_ino != self._inode or found.st_size < self._offset:
            self._inode, self._offset, self._stream = found.st_ino, 0, EventStream()
        if found.st_size == self._offset:
            return []
        try:
            with open_file(self._path) as file:
                file.seek(self._offset)
                data = file.read(_READ_MAX)
        except OSError:
            return []
        self._offset += len(data)
        return self._stream.take(data)

    def _stat(self) -> Optional[os.stat_result]:
        try:
            return os.stat(self._path)
        except OSError:
            return None


@dataclass
class TaskRun:
    """A task over all hosts of a play."""

    name: str
    action: str
    start: float  # monotonic
    closed_before: int  # lines of events before it
    told: float  # monotonic; when its last plain line was
    hosts: int = 0
    changed: int = 0
    steps: list[str] = field(default_factory=list)
    failed: bool = False


def at_work(run: Optional[TaskRun], *, now: float) -> str:
    """The line of a task that tells no events; empty between tasks, and for those that never take long."""
    return "" if run is None or run.action in _QUIET else line(BUSY, run.name, now - run.start)


def outcome(run: TaskRun, *, check: bool) -> str:
    """What a task that succeeded came to, in a few words."""
    if run.changed == 0:
        text = "unchanged"
    elif check:
        count = len(run.steps)
        text = f"would change: {count} step{'s' if count > 1 else ''}" if run.steps else "would change"
    else:
        text = "" if run.hosts == 1 else f"{run.changed} changed"
    return text if run.hosts == 1 else f"{run.hosts} hosts, {text}"


def failure_text(result: Mapping[str, Any]) -> str:
    """The module's own message; of a command, and of a module that broke, the end of what it printed as well."""
    parts = [str(result.get("msg") or "failed without a message")]
    if result.get("rc"):
        parts += [f"status {result['rc']}"]
        printed = (result.get(key) for key in ("module_stderr", "stderr", "module_stdout", "stdout"))
        parts += [last_lines(str(text)) for text in printed if text][:1]
    return _legible("\n".join(parts))


def _legible(text: str) -> str:
    """What other machines said, without secrets and without what a terminal obeys."""
    return "\n".join(plain_text(line) for line in redact(text).splitlines())


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "ballast.kube.progress"

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, EventFile] = {}
        self._renderer = Renderer()
        self._run: Optional[TaskRun] = None
        self._on_terminal = False
        self._drawn = False
        self._end = threading.Event()
        self._follower: Optional[threading.Thread] = None
        # Ansible holds this lock while it forks: a child never inherits it, or standard error's own, as taken.
        self._lock = getattr(self._display, "_lock", threading.RLock())

    @property
    def _verbose(self) -> bool:
        return bool(self._display.verbosity >= 1)

    # What is at work.

    def _follow(self) -> None:
        while not self._end.wait(_POLL_SECONDS):
            self._catch_up()

    def _follow_file(self, path: str) -> None:
        with self._lock:
            if path and path not in self._files:
                self._files[path] = EventFile(path)

    def _catch_up(self) -> None:
        with self._lock:
            events = [event for file in self._files.values() for event in file.poll()]
            for event in sorted(events, key=lambda event: event.at):
                self._say(self._renderer.take(event))
            now, run = time.time(), self._run
            if self._on_terminal:
                task = at_work(run, now=time.monotonic())[: _width() - 1]
                self._draw(self._renderer.live(now=now, width=_width()) or task)
                return
            lines = self._renderer.plain(now=now)
            if not lines and run is not None and time.monotonic() - run.told >= QUIET_SECONDS:
                lines = [at_work(run, now=time.monotonic())]
            if lines and run is not None:
                run.told = time.monotonic()
            self._say([one for one in lines if one])

    def _say(self, lines: list[str]) -> None:
        with self._lock:
            if lines:
                self._draw("")
            for one in lines:
                self._display.display(one, stderr=True)

    def _show(self, text: str) -> None:
        with self._lock:
            self._draw("")
            self._display.display(text)

    def _draw(self, text: str) -> None:
        if text or self._drawn:
            # The cursor stays at the beginning, so that whoever writes next writes over it.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"{_ERASE}{text}\r" if text else _ERASE)
                sys.stderr.flush()
        self._drawn = bool(text)

    def _stop(self) -> None:
        self._end.set()
        if self._follower is not None:
            self._follower.join()
            self._follower = None
        # Nothing is at work after a playbook's end; this is how an interrupted one gets its.
        run, self._run = self._run, None
        self._say(self._renderer.finish(ok=False, now=time.time()))
        if run is not None:
            self._say([line(BAD, run.name, time.monotonic() - run.start, "interrupted")])
        with self._lock:
            self._draw("")

    # Playbook, plays and tasks.

    def v2_playbook_on_start(self, playbook: Any) -> None:
        for path in self.get_option("events") or []:
            self._follow_file(str(path))
        dumb = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._on_terminal = sys.stderr.isatty() and not dumb and not self._verbose
        self._follower = threading.Thread(target=self._follow, name="ballast-progress", daemon=True)
        self._follower.start()
        atexit.register(self._stop)
        if self._verbose:
            super().v2_playbook_on_start(playbook)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._end_task()
        self._follow_file(_events_of(play))
        if self._verbose:
            super().v2_playbook_on_play_start(play)
            return
        self._play = play
        if play.name:
            check = "   (check mode: nothing is changed)" if play.check_mode else ""
            self._say([f"{play.get_name().strip()}{check}"])

    def _task_start(self, task: Any, prefix: Optional[str] = None) -> None:
        self._end_task()
        action = str(task.action).rpartition(".")[2]
        self._run = TaskRun(
            name=task.get_name().strip(),
            action=action,
            start=time.monotonic(),
            told=time.monotonic(),
            closed_before=self._renderer.closed,
        )
        if self._verbose:
            super()._task_start(task, prefix=prefix)

    def _end_task(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        self._catch_up()
        self._say(self._renderer.finish(ok=not run.failed, now=time.time()))
        told = self._renderer.closed > run.closed_before
        quiet = run.action in _QUIET or (run.action.endswith("_info") and not run.changed)
        check = bool(context.CLIARGS.get("check"))
        if self._verbose or run.failed or run.hosts == 0 or quiet or told:
            return
        self._say([line(OK, run.name, time.monotonic() - run.start, outcome(run, check=check))])
        if check:
            self._say([f"     {step}" for step in run.steps])

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._end_task()
        self._stop()
        if self._verbose:
            super().v2_playbook_on_stats(stats)

    def v2_playbook_on_include(self, included_file: Any) -> None:
        if self._verbose:
            super().v2_playbook_on_include(included_file)

    def v2_playbook_on_no_hosts_matched(self) -> None:
        self._say([" • no hosts matched"])

    def v2_playbook_on_no_hosts_remaining(self) -> None:
        if self._verbose:
            super().v2_playbook_on_no_hosts_remaining()

    # Results.

    def v2_runner_on_ok(self, result: Any) -> None:
        run, found = self._run, result.result
        if run is not None:
            run.hosts += 1
            run.changed += bool(found.get("changed"))
            run.steps += [f"{step.get('verb')} {step.get('title')}" for step in _steps(found)]
        if self._verbose:
            super().v2_runner_on_ok(result)
            return
        self._tell_warnings(found)
        if run is not None and run.action == "debug" and "results" not in found:
            self._show(_debug_text(found))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        found, run = result.result, self._run
        if not ignore_errors:
            self._mark_failed()
        if self._verbose:
            super().v2_runner_on_failed(result, ignore_errors=ignore_errors)
            return
        self._tell_warnings(found)
        seconds = time.monotonic() - run.start if run else 0.0
        name = run.name if run else result.task.get_name()
        if ignore_errors:
            first = failure_text(found).splitlines()[0]
            self._say([line(BUSY, name, seconds, f"failed and ignored: {first}")])
            return
        self._say([line(BAD, name, seconds, f"failed on {self.host_label(result)}")])
        if not (result.task.loop and "results" in found):  # else each item has told its own
            self._say([failure_text(found)])

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._mark_failed()
        if self._verbose:
            super().v2_runner_on_unreachable(result)
            return
        self._say([line(BAD, result.task.get_name(), 0.0, f"no connection to {self.host_label(result)}")])
        self._say([failure_text(result.result)])

    def _mark_failed(self) -> None:
        self._catch_up()
        if self._run is not None:
            self._run.failed = True
        self._say(self._renderer.finish(ok=False, now=time.time()))

    def v2_runner_on_skipped(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_on_skipped(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_item_on_ok(result)
        elif self._run is not None and self._run.action == "debug":
            self._show(_debug_text(result.result))

    def v2_runner_item_on_failed(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_item_on_failed(result)
            return
        self._say([f"{self.host_label(result)}, item {self._get_item_label(result.result)}:"])
        self._say([failure_text(result.result)])

    def v2_runner_item_on_skipped(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_item_on_skipped(result)

    def v2_runner_retry(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_retry(result)

    def v2_runner_on_async_poll(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_on_async_poll(result)

    def v2_on_file_diff(self, result: Any) -> None:
        if self._verbose:
            super().v2_on_file_diff(result)
            return
        found = result.result
        for one in found["results"] if result.task.loop and "results" in found else [found]:
            if one.get("diff") and one.get("changed"):
                text = self._get_diff(one["diff"])
                if text:
                    self._show(text)

    def _tell_warnings(self, found: Any) -> None:
        with self._lock:
            self._draw("")
            self._handle_warnings(found)


def _events_of(play: Any) -> str:
    """The file that a play's modules append their progress to: its variable `ballast_events`. Empty where it has none."""
    variables = play.get_variable_manager().get_vars(play=play)
    if "ballast_events" not in variables:
        return ""
    return str(Templar(loader=play.get_loader(), variables=variables).template(variables["ballast_events"]))


def _steps(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    steps = found.get("steps")
    return (step for step in (steps if isinstance(steps, list) else []) if isinstance(step, Mapping))


def _debug_text(found: Mapping[str, Any]) -> str:
    """What ansible.builtin.debug was asked to print: a message, or a variable by its name."""
    if "msg" in found:
        message = found["msg"]
        if isinstance(message, list) and all(isinstance(one, str) for one in message):
            message = "\n".join(message)
        return _legible(message) if isinstance(message, str) else json.dumps(message, indent=2, default=str)
    shown = {name: value for name, value in found.items() if name != "changed" and not name.startswith("_ansible")}
    return json.dumps(shown, indent=2, default=str)


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
