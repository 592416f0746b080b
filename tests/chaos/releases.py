"""The releases of the package whose workers run side by side: this tree's, and one from before it."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "django_taskq"
#: How many changes of the package the older release lies back, where all of them speak the same contract.
DISTANCE = 15


def older(folder: Path, commit: str | None) -> str:
    """Put an older release into a folder and return what it is; a copy of this tree where history has none."""
    found = commit or previous()
    if found is not None:
        archive = _git("archive", "--format=tar", found, PACKAGE)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        return _git("log", "-1", "--format=%h (%s)", found).decode().strip()
    shutil.copytree(ROOT / PACKAGE, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    return "a copy of this tree, for its history doesn't go back"


def previous() -> str | None:
    """Return the commit of an older release with the same tables, as old as `DISTANCE` allows; None for none."""
    try:
        commits = _git("rev-list", f"--max-count={DISTANCE}", "--skip=1", "HEAD", "--", PACKAGE).decode().split()
        tables = _tables("HEAD")
        return next((commit for commit in reversed(commits) if _tables(commit) == tables), None)
    except (OSError, subprocess.CalledProcessError):
        return None


def _tables(commit: str) -> bytes:
    """Return the names of the migrations of a commit, and of what reads and repairs the rows."""
    names = (f"{PACKAGE}/migrations/", f"{PACKAGE}/fence.py", f"{PACKAGE}/repair.py")
    return _git("ls-tree", "-r", "--name-only", commit, *names)


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, timeout=60).stdout
