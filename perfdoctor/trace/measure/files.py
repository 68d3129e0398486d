"""Measures trace files: one or several at once, those of one job, the windows of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from pathlib import Path

from perfdoctor.errors import PerfdoctorError, TracesDoNotFit
from perfdoctor.model.note import Note
from perfdoctor.trace.parse.source import GZIP_RATIO
from perfdoctor.trace.results import RankTrace

ENOUGH_BYTES = 40_000_000  # of JSON: below it, other processes take longer to start than they save


def measured(paths: Sequence[Path], limit_bytes: int, cores: int) -> list[RankTrace]:
    """Read and measure each file, on as many cores as may be used; the order stays as given.

    Raises what `read` raises, for the first file that cannot be read.
    """
    workers = min(cores, len(paths))
    if workers < 2 or sum(map(_json_bytes, paths)) < ENOUGH_BYTES:
        return [_one(path, limit_bytes) for path in paths]
    from concurrent.futures import ProcessPoolExecutor  # here: slow to import, and only large traces need it
    from multiprocessing import get_context

    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return list(pool.map(_one, paths, repeat(limit_bytes)))


def measured_windows(paths: Mapping[str, Path]) -> tuple[dict[str, RankTrace], list[Note]]:
    """Read and measure the windows of one rank, given by kind; also returns what could not be read."""
    windows: dict[str, RankTrace] = {}
    notes = []
    for kind, path in paths.items():
        try:
            windows[kind] = _one(path)
        except PerfdoctorError as error:
            notes.append(Note("unread-window", {"why": str(error)}))
            continue
        if windows[kind].times is None and windows[kind].host_work:
            break  # on the CPU, more windows than one with shapes tell the report nothing
    return windows, notes


def check(traces: Sequence[RankTrace]) -> None:
    """Raise TracesDoNotFit unless the traces can be those of the ranks of one job."""
    by_rank: dict[int, RankTrace] = {}
    for trace in traces:
        if trace.rank is None:
            continue
        if trace.rank in by_rank:
            raise TracesDoNotFit(
                f"{by_rank[trace.rank].file} and {trace.file} both belong to rank {trace.rank}",
                "give one file per rank, or compare two with --compare",
            )
        by_rank[trace.rank] = trace
    with_steps = [trace for trace in traces if trace.steps]
    for other in with_steps[1:]:
        first = with_steps[0]
        first_steps, other_steps = ({step.name for step in trace.steps} for trace in (first, other))
        if not (first_steps <= other_steps or other_steps <= first_steps):
            raise TracesDoNotFit(
                f"{first.file} holds {_step_range(first)}, but {other.file} holds {_step_range(other)}",
                "give files of one recording, or compare two with --compare",
            )


def _one(path: Path, limit_bytes: int | None = None) -> RankTrace:
    from perfdoctor.trace.measure.measure import measure  # here: many runs have no window
    from perfdoctor.trace.parse.read import LIMIT_BYTES, read

    return measure(read(path, LIMIT_BYTES if limit_bytes is None else limit_bytes))


def _json_bytes(path: Path) -> int:
    """About how much JSON a file holds; one that is not there is for `read` to refuse."""
    size = path.stat().st_size if path.is_file() else 0
    return size * GZIP_RATIO if path.suffix == ".gz" else size


def _step_range(trace: RankTrace) -> str:
    first, last = trace.steps[0].name, trace.steps[-1].name
    return first if first == last else f"{first} to {last}"
