# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`python -m tests.integration.killed_run FEATURE OPTIONS KILL_AT`: what the module of a feature does, ended by SIGKILL after
the KILL_AT-th line that it writes into its journal; 0 is never. Prints the steps that it did, as JSON."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.ballast.kube.plugins.module_utils._core.engine.context import Context
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.events import FileSink, Progress
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.feature import Feature
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.journal import Journal
from ansible_collections.ballast.kube.plugins.module_utils._core.engine.plan import Step
from ansible_collections.ballast.kube.plugins.module_utils._core.host.local_host import LocalHost
from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import BallastError
from tests.integration.processes import IMPORTS, ROOT

Spec = Mapping[str, Any]
_SECONDS = 300


def killed(feature: str, options: Mapping[str, object], *, inside: Sequence[str] = ()) -> None:
    """A run that ends in its first step, which is written down and not done. `inside` is a command that runs it."""
    argv = [*inside, sys.executable, "-m", "tests.integration.killed_run", feature, json.dumps(options), "1"]
    env = {**os.environ, **IMPORTS}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


# Each imports its own: with those of the others a run would take longer to start.


def _kube_proxy() -> Feature[Any]:
    from ansible_collections.ballast.kube.plugins.module_utils._kube_proxy.feature import FEATURE

    return FEATURE


def _image_pulls() -> Feature[Any]:
    from ansible_collections.ballast.kube.plugins.module_utils._pulls.node.feature import FEATURE

    return FEATURE


def _image_pull_proxy() -> Feature[Any]:
    from ansible_collections.ballast.kube.plugins.module_utils._pulls.deployment.feature import FEATURE

    return FEATURE


def _service_proxy() -> Feature[Any]:
    from ansible_collections.ballast.kube.plugins.module_utils._service_proxy.deployment.feature import FEATURE

    return FEATURE


def _node_instances() -> Feature[Any]:
    from ansible_collections.ballast.kube.plugins.module_utils._instance.engine import ENGINE
    from ansible_collections.ballast.kube.plugins.module_utils._instance.record import desired_over_record
    from ansible_collections.ballast.kube.plugins.module_utils._instance.spec import SPEC

    return Feature("node_instances", spec=SPEC, desired=desired_over_record, engine=ENGINE)


_FEATURES: Mapping[str, Callable[[], Feature[Any]]] = {
    "kube_proxy": _kube_proxy,
    "image_pulls": _image_pulls,
    "image_pull_proxy": _image_pull_proxy,
    "service_proxy": _service_proxy,
    "node_instances": _node_instances,
}


def main() -> None:
    name, given, at = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    feature = _FEATURES[name]()
    if at:
        _kill_at(at)
    host = LocalHost()
    desired = feature.desired(_whole(feature.spec, given), host)
    try:
        state = feature.engine.observe(Context(desired, host))
        plan = feature.engine.plan(desired, state)
        feature.engine.require(Context(desired, host), state)
        feature.engine.claim(Context(desired, host))  # before the first event is written there
        progress = Progress(FileSink(os.path.join(desired.state_dir, "events.jsonl")), feature=name)
        done = feature.engine.apply(plan, Context(desired, host, progress))
    except BallastError as error:
        sys.exit(str(error))
    sys.stdout.write(json.dumps(feature.engine.as_result(done)["steps"]))


def _whole(spec: Spec, given: Mapping[str, Any]) -> dict[str, Any]:
    """With the options that were left out, those of the rows of a list too, as Ansible hands them to a module."""
    found = {name: row.get("default") for name, row in spec.items()}
    for name, value in given.items():
        below = spec[name].get("options")
        found[name] = [_whole(below, row) for row in value] if below and isinstance(value, list) else value
    return found


def _kill_at(at: int) -> None:
    written = 0
    for name in ("doing", "done"):
        plain = getattr(Journal, name)

        def counted(self: Journal, step: Step, plain=plain) -> None:  # type: ignore[no-untyped-def]
            nonlocal written
            plain(self, step)
            written += 1
            if written == at:
                os.kill(os.getpid(), signal.SIGKILL)

        setattr(Journal, name, counted)


if __name__ == "__main__":
    main()
