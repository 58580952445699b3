"""Make the image of an execution environment with this checkout as ballast.kube: no container engine, no registry. docs/awx.md

    python -m scripts.execution_environment [--path ARCHIVE.tar] [--name NAME:TAG] [--cache-dir DIRECTORY]

Python packages are those of requirements/constraints-ee.txt, from wheels by their digests. Debian packages are those of one suite, so that the
image does not depend on the machine that makes it. The module image_archive puts both together with the collection's archive.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scripts.build import build, copy_shipped
from scripts.env import EE_PYTHON, LINK, REQUIREMENTS, ROOT

NAME = "ballast.local/execution-environment:1"
PLACE = ROOT / ".build/execution-environment"
PINS = REQUIREMENTS / "constraints-ee.txt"
BINDEP = ROOT / "meta/ee-bindep.txt"
BIN = Path(sys.executable).parent
SUITE = "trixie"  # the Debian suite whose Python is EE_PYTHON
# Besides what the collection needs: Python, a shell and its commands for modules on localhost, locales, a first process that passes
# signals on, and a library that finds users in an extra file.
PACKAGES = ("bash", "coreutils", "dash", "dumb-init", "libc-bin", "libnss-extrausers", "python3")
_OLDEST_LIBC, _LIBC = 17, 41  # glibc minor versions of usable wheels: from manylinux_2_17 to that of the suite
# Debian's own Python looks for packages here.
_PYTHON = f"/usr/local/lib/python{EE_PYTHON}/dist-packages"
_COLLECTIONS = "/usr/share/ansible/collections"
_HOME = "/runner"
_BYTE_CODE = "/var/cache/python"
_USERS = "/var/lib/extrausers/passwd"

# A container may run as any user in the group root, as on OpenShift. ssh refuses a user without a name.
_ENTRYPOINT = f"""#!/bin/sh
if ! getent passwd "$(id -u)" > /dev/null && [ -w {_USERS} ]; then
    echo "runner-$(id -u):x:$(id -u):$(id -g)::{_HOME}:/bin/bash" >> {_USERS}
fi
exec "$@"
"""


def debian_packages() -> list[str]:
    """The Debian packages in meta/ee-bindep.txt."""
    return re.findall(r"^(\S+) \[platform:dpkg\]$", BINDEP.read_text(encoding="utf-8"), re.M)


def platforms() -> Iterator[str]:
    machine = platform.machine()
    for version in range(_LIBC, _OLDEST_LIBC - 1, -1):
        yield f"manylinux_2_{version}_{machine}"
    yield f"manylinux2014_{machine}"


def lay_out_python(cache: Path) -> Path:
    """The directory of the pinned packages for the image's Python, with programs in `bin`; made once for each content of the pins."""
    digest = hashlib.sha256(f"{EE_PYTHON} {platform.machine()} ".encode() + PINS.read_bytes()).hexdigest()
    done = cache / f"python-{digest[:16]}"
    if done.is_dir():
        return done
    cache.mkdir(parents=True, exist_ok=True)
    abi = f"cp{EE_PYTHON.replace('.', '')}"
    # The first line of each program names the Python with which pip runs: Debian's, as in the image.
    argv = [sys.executable, "-m", "pip", "--python", "/usr/bin/python3", "install", "--quiet", "--no-deps"]
    argv += ["--disable-pip-version-check", "--root-user-action=ignore", "--no-compile", "--require-hashes"]
    argv += ["--only-binary=:all:", f"--python-version={EE_PYTHON}", "--implementation=cp"]
    argv += [f"--abi={tag}" for tag in (abi, "abi3", "none")] + [f"--platform={platform}" for platform in platforms()]
    with tempfile.TemporaryDirectory(dir=cache) as work:
        made = Path(work) / "python"
        if subprocess.run([*argv, f"--target={made}", "-r", str(PINS)], check=False).returncode != 0:
            sys.exit(
                "execution environment: pip could not fetch what requirements/constraints-ee.txt pins; its own message stands above\n"
                "  do:    where it names a hash, the index serves another file than was tested: find out why, and do not renew the pins"
            )
        made.replace(done)
    return done


def lay_out_collection(archive: Path, place: Path) -> None:
    argv = [str(BIN / "ansible-galaxy"), "collection", "install", "--offline", "--no-cache", "--no-deps", "--force"]
    # Outside of Ansible's collection paths on this machine, about which it would warn.
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(place)}
    done = [*argv, "-p", str(place), str(archive)]
    subprocess.run(done, check=True, stdout=subprocess.DEVNULL, env=environment)
    sort_files(place / "ansible_collections/ballast/kube")


def sort_files(collection: Path) -> None:
    """ansible-galaxy lists files in the order of the file system, which differs between checkouts."""
    listing, manifest = collection / "FILES.json", collection / "MANIFEST.json"
    listed = json.loads(listing.read_text(encoding="utf-8"))
    listed["files"].sort(key=lambda file: file["name"])
    listing.write_text(json.dumps(listed, indent=1), encoding="utf-8")
    named = json.loads(manifest.read_text(encoding="utf-8"))
    named["file_manifest_file"]["chksum_sha256"] = hashlib.sha256(listing.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(named, indent=1), encoding="utf-8")


def definition(name: str, *, python: Path, collections: Path) -> dict[str, Any]:
    """The image definition for the module image_archive."""
    programs = sorted((python / "bin").iterdir())
    packages = sorted(path for path in python.iterdir() if path.name != "bin")
    passwd = f"root:x:0:0:root:{_HOME}:/bin/bash\nrunner:x:1000:0::{_HOME}:/bin/bash\n"
    return {
        "name": name,
        "whole": sorted({*PACKAGES, *debian_packages()}),
        "files": [
            *({"path": f"{_PYTHON}/{path.name}", "local": str(path)} for path in packages),
            *({"path": f"/usr/local/bin/{path.name}", "local": str(path), "mode": "0755"} for path in programs),
            {"path": f"{_COLLECTIONS}/ansible_collections", "local": str(collections / "ansible_collections")},
            {"path": "/usr/local/bin/entrypoint", "content": _ENTRYPOINT, "mode": "0755"},
            {"path": "/etc/passwd", "content": passwd},
            {"path": "/etc/group", "content": "root:x:0:\n"},
            {"path": "/etc/nsswitch.conf", "content": "passwd: files extrausers\ngroup: files\nhosts: files dns\n"},
            {"path": _USERS, "content": "", "mode": "0664"},
        ],
        "directories": [
            {"path": _HOME, "mode": "0775"},
            {"path": _BYTE_CODE, "mode": "0775"},
            {"path": "/tmp", "mode": "1777"},
            {"path": "/var/tmp", "mode": "1777"},
        ],
        "links": [
            *({"path": f"/{name}", "to": f"usr/{name}"} for name in ("bin", "lib", "lib64", "sbin")),
            {"path": "/usr/bin/sh", "to": "dash"},
            # Where OpenSSL looks for CA certificates unless a variable names another file.
            {"path": "/usr/lib/ssl/cert.pem", "to": f"{_PYTHON}/certifi/cacert.pem"},
        ],
        "entrypoint": ["/usr/bin/dumb-init", "--", "/usr/local/bin/entrypoint"],
        "cmd": ["bash"],
        "env": {
            "HOME": _HOME,
            "LANG": "C.UTF-8",
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            # Packages belong to root. Without this directory, each process that Ansible forks would compile its imports.
            "PYTHONPYCACHEPREFIX": _BYTE_CODE,
        },
        "user": "1000",
        "working_dir": _HOME,
    }


def write_image(options: dict[str, Any]) -> str:
    """Run the module image_archive; returns the digest of the image."""
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(LINK.parents[2]),
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.minimal",
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "true",
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_LOCALHOST_WARNING": "false",
    }
    argv = [str(BIN / "ansible"), "localhost", "-i", "localhost,", "-c", "local"]
    argv += ["-e", "ansible_python_interpreter={{ ansible_playbook_python }}"]
    argv += ["-m", "ballast.kube.image_archive", "-a", json.dumps(options)]
    done = subprocess.run(argv, check=False, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout)
    result = json.JSONDecoder().raw_decode(done.stdout.partition("=> ")[2])[0]
    return str(result["images"][0]["digest"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, default=PLACE / "image/execution-environment.tar")
    parser.add_argument("--name", default=NAME)
    parser.add_argument("--cache-dir", type=Path, default=PLACE)
    given = parser.parse_args(arguments)
    path, cache = given.path.absolute(), given.cache_dir.absolute()
    python = lay_out_python(cache)
    with tempfile.TemporaryDirectory(dir=cache) as work:
        place = Path(work)
        copy_shipped(place / "source")
        lay_out_collection(build(place, place / "source"), place / "collections")
        described = definition(given.name, python=python, collections=place / "collections")
        options = {"path": str(path), "images": [], "suite": SUITE, "definitions": [described]}
        digest = write_image(options)
    print(f" ✓ {given.name} {digest}: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
