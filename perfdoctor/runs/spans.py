"""When runs began and ended, and which of them ran at the same time, as the parts of a job do."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from perfdoctor.runs.directory import CLOCKS_S, HOST_SAMPLES, RUN, Json
from perfdoctor.runs.json_text import whole
from perfdoctor.wire.names import BOOT

WRITTEN = (HOST_SAMPLES, BOOT, RUN)  # the newest of them tells when a lost run ended

Span = tuple[float, float]


def span_s(path: Path, run: Json) -> Span:
    """When a run began and ended, as times of day; a lost one ended when something was written last."""
    began_s = run.get("started_epoch_s")
    began_s = float(began_s) if isinstance(began_s, (int, float)) else 0.0
    begin_ns, end_ns = whole(run, "begin_ns"), whole(run, "end_ns")
    if begin_ns is not None and end_ns is not None:
        return began_s, began_s + (end_ns - begin_ns) / 1e9
    written = [began_s]
    for name in WRITTEN:
        with suppress(OSError):
            written.append((path / name).stat().st_mtime)
    return began_s, max(written)


def meet(one_s: Span, other_s: Span) -> bool:
    """Whether two runs ran at the same time, as far as the clocks of their machines tell."""
    return one_s[0] <= other_s[1] + CLOCKS_S and other_s[0] <= one_s[1] + CLOCKS_S


def meeting(runs: Mapping[Path, Json]) -> set[Path]:
    """Those that ran at the same time as another one, as the parts of a job do."""
    spans = sorted((span_s(path, run), path) for path, run in runs.items())
    met: set[Path] = set()
    last: tuple[Span, Path] | None = None  # that ended last so far
    for span, path in spans:
        if last is not None and meet(span, last[0]):
            met |= {path, last[1]}
        if last is None or span[1] > last[0][1]:
            last = span, path
    return met
