# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Settings of all unit tests: generated inputs are the same in every run, and no example database is kept."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("ballast", derandomize=True, database=None, deadline=None, max_examples=60)
settings.load_profile("ballast")
