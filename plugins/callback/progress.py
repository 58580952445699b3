# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Its base classes have no annotations.
# mypy: disallow-untyped-calls=False

from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: stdout
short_description: Show progress, waits and results of the collection's playbooks
version_added: 1.0.0
author:
  - ballast.kube contributors (@ballast-kube)
description:
  - Prints a line for each task that ends, with its time. Where the module reports several steps, they are indented below the name
    of the task, and its own line with the whole time follows them.
  - Times of one level add up. A time with a C(+) belongs to a step that ran beside others. It is what the step took after those above it had ended.
  - On a terminal, one more line shows the step at work, how long it has been, and what it waits for. Without a terminal, or with
    E(NO_COLOR) set, that line is printed when nothing else was for 30 seconds.
  - A failed task prints the message of its module as the module wrote it.
  - Progress and failures go to standard error. Standard output has summaries, the messages of M(ansible.builtin.debug) and the differences of C(--diff).
  - With C(-v) the output is that of P(ansible.builtin.default#callback), and plain lines of progress beside it.
  - Only the steps of this run are shown. Modules of this collection that run through another callback print their steps too, below the
    name of the task.
extends_documentation_fragment:
  - ansible.builtin.default_callback
  - ansible.builtin.result_format_callback
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

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import Event, FileSink
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import HostError, last_lines
from ansible_collections.ballast.kube.plugins.plugin_utils.relay import POLL_HERE_SECONDS, Relay, read_here
from ansible_collections.ballast.kube.plugins.plugin_utils.render import (
    BAD,
    BUSY,
    QUIET_SECONDS,
    Line,
    TaskLines,
    legible,
    message_text,
)
from ansible_collections.ballast.kube.plugins.plugin_utils.shown import RUN_EVENTS

# Actions that only decide and change nothing: a line for each would be noise.
_QUIET = {
    "add_host", "assert", "debug", "fail", "gather_facts", "group_by", "import_role", "import_tasks", "include_role",
    "include_tasks", "include_vars", "meta", "playbook_message", "set_fact", "set_stats", "setup", "validate_argument_spec",
}  # fmt: skip
_MESSAGES = ("debug", "playbook_message")
_ERASE = "\r\x1b[K"


@dataclass
class TaskRun:
    """A task for all hosts of a play."""

    action: str
    lines: TaskLines
    hosts: int = 0
    changed: int = 0
    steps: list[str] = field(default_factory=list)
    failed: bool = False


def outcome(run: TaskRun, *, check: bool) -> str:
    """The result of a task that succeeded, in a few words."""
    if run.changed == 0:
        text = "unchanged"
    elif check:
        count = len(run.steps)
        text = f"would change: {count} step{'s' if count > 1 else ''}" if run.steps else "would change"
    else:
        text = "" if run.hosts == 1 else f"{run.changed} changed"
    return text if run.hosts == 1 else f"{run.hosts} hosts, {text}"


def failure_text(result: Mapping[str, Any]) -> str:
    """The module's own message; for commands and crashed modules also the end of their output."""
    parts = [str(result.get("msg") or "failed without a message")]
    if result.get("rc"):
        parts += [f"status {result['rc']}"]
        printed = (result.get(key) for key in ("module_stderr", "stderr", "module_stdout", "stdout"))
        parts += [last_lines(str(text)) for text in printed if text][:1]
    return legible("\n".join(parts))


class CallbackModule(Default):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "ballast.kube.progress"

    def __init__(self) -> None:
        super().__init__()
        self._relay = Relay(read_here(RUN_EVENTS), self, offset=0)
        self._said = 0.0  # time of the last line (Unix time)
        self._run: Optional[TaskRun] = None
        self._on_terminal = False
        self._drawn = False
        self._end = threading.Event()
        self._follower: Optional[threading.Thread] = None
        # Ansible holds this lock while it forks, so a child never inherits it, or the lock of standard error, as taken.
        self._lock = getattr(self._display, "_lock", threading.RLock())

    @property
    def _verbose(self) -> bool:
        return bool(self._display.verbosity >= 1)

    # The present task.

    def _follow(self) -> None:
        while not self._end.wait(POLL_HERE_SECONDS):
            self._catch_up()

    def emit(self, event: Event) -> None:
        """Handle an event of the present task."""
        if self._run is not None:
            self._say(self._run.lines.take(event))

    def _catch_up(self) -> None:
        with self._lock:
            self._relay.catch_up()
            now, run = time.time(), self._run
            busy = run is not None and (run.action not in _QUIET or run.lines.has_subjects)
            if self._on_terminal:
                self._draw(run.lines.live(now=now, width=_width()) if run and busy else "")
            elif run and busy and now - max(self._said, run.lines.started) >= QUIET_SECONDS:
                self._say(run.lines.due(now=now))

    def _say(self, lines: list[str]) -> None:
        with self._lock:
            if lines:
                self._draw("")
                self._said = time.time()
            for one in lines:
                self._display.display(one, stderr=True)

    def _show(self, text: str) -> None:
        with self._lock:
            self._draw("")
            self._display.display(text)

    def _draw(self, text: str) -> None:
        if text or self._drawn:
            # The cursor stays at the beginning, so that the next output overwrites the line.
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"{_ERASE}{text}\r" if text else _ERASE)
                sys.stderr.flush()
        self._drawn = bool(text)

    def _stop(self) -> None:
        self._end.set()
        if self._follower is not None:
            self._follower.join()
            self._follower = None
        # A playbook that has ended has no present task; an interrupted one has, which ends here.
        run, self._run = self._run, None
        if run is not None:
            self._say(run.lines.finish(ok=False, now=time.time()))
            self._say([_line(BAD, run, "interrupted")])
        with self._lock:
            self._draw("")

    # Playbook, plays and tasks.

    def v2_playbook_on_start(self, playbook: Any) -> None:
        with contextlib.suppress(HostError):  # without the file, tasks print their own lines
            FileSink(RUN_EVENTS)  # the file's existence tells tasks that somebody reads it
        dumb = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._on_terminal = sys.stderr.isatty() and not dumb and not self._verbose
        self._end.clear()  # an earlier playbook may have set it
        self._follower = threading.Thread(target=self._follow, name="ballast-progress", daemon=True)
        self._follower.start()
        atexit.register(self._stop)
        if self._verbose:
            super().v2_playbook_on_start(playbook)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._end_task()
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
        # Not task.get_name(), which puts the role's name before the task's.
        name = str(task.name or task.action).strip()
        self._run = TaskRun(action=action, lines=TaskLines(name, started=time.time()))
        if self._verbose:
            super()._task_start(task, prefix=prefix)

    def _end_task(self) -> None:
        if self._run is None:
            return
        self._catch_up()
        run, self._run = self._run, None
        self._say(run.lines.finish(ok=not run.failed, now=time.time()))
        quiet = run.action in _QUIET or (run.action.endswith("_info") and not run.changed)
        check = bool(context.CLIARGS.get("check"))
        if run.failed or run.hosts == 0 or (not run.lines.has_subjects and (self._verbose or quiet)):
            return
        self._say([run.lines.end(now=time.time(), text=outcome(run, check=check))])
        if check and not self._verbose:
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
        if run is not None and run.action in _MESSAGES and "results" not in found:
            self._show(_debug_text(found))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        found, run = result.result, self._run
        if not ignore_errors:
            self._mark_failed()
        if self._verbose:
            super().v2_runner_on_failed(result, ignore_errors=ignore_errors)
            return
        self._tell_warnings(found)
        if ignore_errors:
            first = failure_text(found).splitlines()[0]
            self._say([_line(BUSY, run, f"failed and ignored: {first}")])
            return
        self._say([_line(BAD, run, f"failed on {self.host_label(result)}")])
        if not (result.task.loop and "results" in found):  # otherwise each item has already been reported
            self._say([failure_text(found)])

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._mark_failed()
        if self._verbose:
            super().v2_runner_on_unreachable(result)
            return
        self._say([_line(BAD, self._run, f"no connection to {self.host_label(result)}")])
        self._say([failure_text(result.result)])

    def _mark_failed(self) -> None:
        self._catch_up()
        if self._run is not None:
            self._run.failed = True
            self._say(self._run.lines.finish(ok=False, now=time.time()))

    def v2_runner_on_skipped(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_on_skipped(result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        if self._verbose:
            super().v2_runner_item_on_ok(result)
        elif self._run is not None and self._run.action in _MESSAGES:
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


def _line(mark: str, run: Optional[TaskRun], text: str) -> str:
    """A line for a result, which may arrive after its task has ended."""
    if run is None:
        return str(Line(mark, "", 0.0, text))
    return str(Line(mark, run.lines.name, time.time() - run.lines.started, text))


def _steps(found: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    steps = found.get("steps")
    return (step for step in (steps if isinstance(steps, list) else []) if isinstance(step, Mapping))


def _debug_text(found: Mapping[str, Any]) -> str:
    """What ansible.builtin.debug prints: a message, or a variable by its name."""
    if "msg" in found:
        return message_text(found["msg"])
    shown = {name: value for name, value in found.items() if name != "changed" and not name.startswith("_ansible")}
    return json.dumps(shown, indent=2, default=str)


def _width() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
