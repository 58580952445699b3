# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Input errors of `readiness_info`, in one table."""

from __future__ import annotations

from .._core.text.errors import HostError, Message, Messages, UserError

MESSAGES = Messages(
    "docs/reference/errors-readiness.md",
    [
        Message(
            id="readiness-value",
            error=UserError,
            text="{path}: {value} is not {wanted}",
            remedy="pass it unchanged from the info module with readiness=true, or from an earlier readiness.json; use one version of "
            "ballast.kube on all hosts and the control node",
        ),
        Message(
            id="readiness-key",
            error=UserError,
            text="{path}: unknown key {key}; allowed: {allowed}",
            remedy="use one version of ballast.kube for the whole run, and remove manual additions",
        ),
        Message(
            id="readiness-key-missing",
            error=UserError,
            text="{path}: {key} is missing",
            remedy="use one version of ballast.kube for the whole run, and pass the module's complete result",
        ),
        Message(
            id="readiness-host-twice",
            error=UserError,
            text="{path}: host {name} appears more than once",
            remedy="list each host once: its last report would hide the others",
        ),
        Message(
            id="readiness-feature",
            error=HostError,
            text="a document about a feature is not valid: {problem}",
            remedy="install ballast.kube again on the control node; if you changed plugins/plugin_utils/readiness_features, correct that document",
        ),
    ],
)
