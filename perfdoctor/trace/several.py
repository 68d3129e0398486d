"""Several files measured at once, on as many cores as may be used."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from pathlib import Path

from perfdoctor.trace.measure import measure
from perfdoctor.trace.read import read
from perfdoctor.trace.results import RankTrace
from perfdoctor.trace.source import GZIP_RATIO

ENOUGH_BYTES = 40_000_000  # of JSON: below it, other processes take longer to start than they save


def measured(paths: Sequence[Path], limit_bytes: int, cores: int) -> list[RankTrace]:
    """Each file read and measured, in the order given; only the figures are kept.

    Raises what `read` raises, for the first file that cannot be read.
    """
    workers = min(cores, len(paths))
    if workers < 2 or sum(map(_json_bytes, paths)) < ENOUGH_BYTES:
        return [_one(path, limit_bytes) for path in paths]
    from concurrent.futures import ProcessPoolExecutor  # here: slow to import, and only large traces need it
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(_one, paths, repeat(limit_bytes)))


def _one(path: Path, limit_bytes: int) -> RankTrace:
    return measure(read(path, limit_bytes))


def _json_bytes(path: Path) -> int:
    """About how much JSON a file holds; one that is not there is for `read` to refuse."""
    size = path.stat().st_size if path.is_file() else 0
    return size * GZIP_RATIO if path.suffix == ".gz" else size
