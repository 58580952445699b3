# Copyright (c) 2026, ballast.kube contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a distribution calls its packages, and the command that installs them there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.ballast.kube.plugins.module_utils._core.text.errors import Unavailable
from ansible_collections.ballast.kube.plugins.module_utils._core.text.packages import (
    DEBIAN,
    NAMES,
    RED_HAT,
    SUSE,
    install_command,
    names_everywhere,
    package_names,
    parse_distribution,
    read_distribution,
)
from tests.unit.fakes import FakeHost

UBUNTU = 'PRETTY_NAME="Ubuntu 24.04.3 LTS"\nID=ubuntu\nID_LIKE=debian\n'
ROCKY = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nPRETTY_NAME="Rocky Linux 9.6 (Blue Onyx)"\n'
RHEL = 'ID="rhel"\nPRETTY_NAME="Red Hat Enterprise Linux 8.10 (Ootpa)"\n'
LEAP = 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\nPRETTY_NAME="openSUSE Leap 15.6"\n'
PACKAGES = ["python3-yaml", "conntrack", "nftables"]


@pytest.mark.parametrize(
    ("text", "family", "command"),
    [
        ("ID=debian\n", DEBIAN, "apt-get install python3-yaml conntrack nftables"),
        (UBUNTU, DEBIAN, "apt-get install python3-yaml conntrack nftables"),
        (ROCKY, RED_HAT, "dnf install python3-pyyaml conntrack-tools nftables"),
        (RHEL, RED_HAT, "dnf install python3-pyyaml conntrack-tools nftables"),
        (LEAP, SUSE, "zypper install python311-PyYAML conntrack-tools nftables"),
        ("ID=sles\nID_LIKE=suse\n", SUSE, "zypper install python311-PyYAML conntrack-tools nftables"),
        ("ID=mine\nID_LIKE='other fedora'\n", RED_HAT, "dnf install python3-pyyaml conntrack-tools nftables"),
        ("ID=mine\n", "", "apt-get install python3-yaml conntrack nftables"),
        ("", "", "apt-get install python3-yaml conntrack nftables"),
        ("no line of it = x\n\0", "", "apt-get install python3-yaml conntrack nftables"),
    ],
)
def test_packages_have_the_names_of_the_distribution(text: str, family: str, command: str) -> None:
    distribution = parse_distribution(text)
    assert distribution.family == family
    assert install_command(distribution, PACKAGES) == command


def test_a_package_that_two_names_mean_is_named_once() -> None:
    assert package_names(parse_distribution(RHEL), ["util-linux", "mount"]) == ["util-linux"]


def test_a_tool_that_is_missing_is_installed_as_its_machine_does() -> None:
    host = FakeHost()
    host.given("/etc/os-release", RHEL)
    distribution = read_distribution(host)
    assert distribution.name == "Red Hat Enterprise Linux 8.10 (Ootpa)"
    assert "dnf install iproute" in str(Unavailable("ip", distribution=distribution))
    assert "apt-get install iproute2" in str(Unavailable("ip", distribution=read_distribution(FakeHost())))


def test_a_message_without_a_machine_names_the_package_of_each_distribution() -> None:
    assert names_everywhere("python3-yaml") == "Debian: python3-yaml, Red Hat: python3-pyyaml, SUSE: python311-PyYAML"
    assert names_everywhere("python3-kubernetes").startswith("Debian: python3-kubernetes, Red Hat: python3-kubernetes")


def test_remedies_of_missing_packages_name_no_distribution_s_command() -> None:
    core = Path(__file__).resolve().parents[3] / "plugins/module_utils/_core"
    assert [path.name for path in core.rglob("*.py") if "apt-get" in path.read_text()] == ["packages.py"]


def test_every_name_of_the_table_is_in_the_page() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/support.md").read_text()
    names = {package for package, others in NAMES.items() for package in (package, *others.values())}
    assert {name for name in names if f"`{name}`" not in page} == set()
