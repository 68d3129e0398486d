"""Tables as CSV: a row for each step, or for each process in each sample of the host."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from perfdoctor.model.measured import Phase
from perfdoctor.model.recorded import Recorded
from perfdoctor.render import text

FORMULA = ("=", "+", "-", "@")  # what makes a spreadsheet compute a text
SAMPLES = ("at_s", "pid", "role", "cpu_s", "threads", "rss_bytes", "read_bytes", "written_bytes")

Cell = str | float | None


def steps(record: Recorded) -> str:
    """Seconds are of one step, also where a row stands for several."""
    phases = tuple(Phase)
    header = (
        "step",
        "steps",
        "begin_s",
        "seconds",
        *(f"{phase.value}_s" for phase in phases),
        "samples",
        "loss",
    )
    rows = (
        (
            *(step.number, round(step.steps), step.begin_s, step.seconds),
            *(step.phases.get(phase, 0.0) for phase in phases),
            *(step.samples, step.loss),
        )
        for step in record.steps
    )
    return _table(header, rows)


def samples(record: Recorded) -> str:
    """Processes of the run as they were sampled; what could not be read is empty."""
    return _table(SAMPLES, (tuple(getattr(sample, name) for name in SAMPLES) for sample in record.host))


def _table(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    """A text that a spreadsheet would compute gets an apostrophe in front."""
    if isinstance(value, str):
        plain = text.escape_control(value)
        return f"'{plain}" if plain.lstrip().startswith(FORMULA) else plain
    return float(f"{value:.9g}") if isinstance(value, float) else value
