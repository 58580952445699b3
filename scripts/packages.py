"""Install the Debian or Ubuntu packages of the lists given that are missing.

    python3 scripts/packages.py [--list] requirements/packages-lab.txt ...

A line of a list is a name and, after #, why it is needed. When nothing is missing, nothing is run but one question to
dpkg. --list prints what is missing, a line each, and installs nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


def parse(text: str) -> dict[str, str]:
    """Reasons by package name, from the lines that name a package."""
    packages = {}
    for line in text.splitlines():
        name, _hash, reason = line.partition("#")
        if name.strip():
            packages[name.strip()] = reason.strip()
    return packages


def installed() -> set[str]:
    argv = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n"]
    shown = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    return {line.split()[0] for line in shown.splitlines() if line.endswith(" installed")}


def install(names: list[str]) -> None:
    # Set apt's environment inside sudo, which would drop it.
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", "apt-get", "-o", "DPkg::Lock::Timeout=300"]
    if os.geteuid() != 0:
        if not shutil.which("sudo"):
            sys.exit("packages: not root, and there is no sudo\n  do:    apt-get install " + " ".join(names))
        apt.insert(0, "sudo")
    for argv in (
        [*apt, "--quiet", "update"],
        [*apt, "--quiet", "--yes", "--no-install-recommends", "install", *names],
    ):
        print("+ " + " ".join(argv), flush=True)
        # An update may fail for a source that has none of these packages; only the install counts.
        failed = subprocess.run(argv, check=False).returncode != 0
        if failed and "install" in argv:
            sys.exit("packages: apt-get could not install them; its own message stands above")


def main(arguments: list[str]) -> None:
    only_list = "--list" in arguments
    packages: dict[str, str] = {}
    for path in arguments:
        if path != "--list":
            packages.update(parse(Path(path).read_text(encoding="utf-8")))
    if not shutil.which("dpkg-query"):
        sys.exit(
            "packages: this is neither Debian nor Ubuntu, so nothing can be installed here\n"
            "  do:    install what these lists name in your system's way: " + " ".join(arguments)
        )
    here = installed()
    missing = sorted(name for name in packages if name not in here)
    for name in missing:
        print(f"{name:24} {packages[name]}", flush=True)
    if missing and not only_list:
        print(f" • apt-get installs these {len(missing)} packages, and what they depend on", flush=True)
        install(missing)
        print(f" ✓ {len(missing)} packages installed: {' '.join(missing)}")


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main(sys.argv[1:])
