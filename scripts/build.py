"""Build the collection archive into .build/dist and check what is in it.

The archive must hold exactly the files that git knows (or would add) in the places that are shipped: nothing of tests,
lab, environments or caches, and nothing missing. It is then installed into an empty place, where the documentation of
each module must be readable and each playbook must parse: what a user of the archive has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / ".build/dist"
INSTALLED = DIST / "installed"
BIN = Path(sys.executable).parent
MADE = {"MANIFEST.json", "FILES.json"}  # written by ansible-galaxy in place of galaxy.yml
SHIPPED_FILES = {"README.md", "CHANGELOG.md", "LICENSE", "SECURITY.md"}
SHIPPED_FOLDERS = ("changelogs", "docs", "meta", "playbooks", "plugins", "roles")


def shipped(root: Path = ROOT) -> set[str]:
    argv = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(argv, check=True, cwd=root, stdout=subprocess.PIPE, text=True).stdout.split("\0")
    here = {name for name in listed if name and (root / name).is_file()}
    return SHIPPED_FILES | {name for name in here if name.split("/")[0] in SHIPPED_FOLDERS}


def names(folder: str, ending: str) -> list[str]:
    paths = (INSTALLED / "ansible_collections/ballast/kube" / folder).glob("*" + ending)
    return [f"ballast.kube.{path.stem}" for path in sorted(paths) if not path.name.startswith("_")]


def use(archive: Path) -> None:
    """Install the archive and ask for its modules and playbooks, with no other collection in sight."""
    settings = DIST / "ansible.cfg"
    settings.write_text("[defaults]\n", encoding="utf-8")
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(INSTALLED), "ANSIBLE_CONFIG": str(settings)}

    def run(*argv: str) -> None:
        quiet = subprocess.DEVNULL if argv[0] == "ansible-doc" else None
        done = subprocess.run([str(BIN / argv[0]), *argv[1:]], check=False, cwd=DIST, env=environment, stdout=quiet)
        if done.returncode != 0:
            sys.exit(f" ✗ status {done.returncode} from: {' '.join(argv)}")

    run("ansible-galaxy", "collection", "install", "--offline", "--no-cache", "-p", str(INSTALLED), str(archive))
    modules, playbooks = names("plugins/modules", ".py"), names("playbooks", ".yml")
    if modules:
        run("ansible-doc", "--type", "module", "--json", *modules)
    if playbooks:
        run("ansible-playbook", "--syntax-check", "--inventory", "localhost,", *playbooks)
    print(f" ✓ installed: {len(modules)} modules with documentation, {len(playbooks)} playbooks that parse")


def copy_shipped(place: Path, root: Path = ROOT) -> None:
    """Copy what the archive consists of, and no other files of a checkout, such as a kubeconfig, an inventory, or reports of a run."""
    for name in sorted({*shipped(root), "galaxy.yml"}):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, place / name, follow_symlinks=False)


def build(place: Path, source: Path = ROOT) -> Path:
    """The collection's archive, made in `place`, which has none yet."""
    argv = [str(BIN / "ansible-galaxy"), "collection", "build", "--output-path", str(place), str(source)]
    subprocess.run(argv, check=True)
    (archive,) = place.glob("ballast-kube-*.tar.gz")
    return archive


def main() -> int:
    shutil.rmtree(DIST, ignore_errors=True)
    archive = build(DIST)
    with tarfile.open(archive) as tar:
        held = {member.name for member in tar if not member.isdir()} - MADE
    expected = shipped()
    for name in sorted(expected - held):
        print(f" ✗ not in the archive: {name}")
    for name in sorted(held - expected):
        print(f" ✗ does not belong into the archive: {name}   (build_ignore in galaxy.yml)")
    if held != expected:
        return 1
    use(archive)
    print(f" ✓ {archive.relative_to(ROOT)}: {len(held)} files, {archive.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
