"""Runs that an older perfdoctor recorded, from their archives."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.support.paths import ROOT

OLD = ROOT / "tests" / "data" / "old_runs"


def unpacked(name: str, folder: Path) -> Path:
    """The run directory, put into a folder that holds nothing else."""
    with tarfile.open(OLD / f"{name}.tar.gz") as archive:
        archive.extractall(folder)
    (run,) = folder.iterdir()
    return run
