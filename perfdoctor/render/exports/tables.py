"""Tables of a run: a row for each step, each process in a sample of the host, each stack, or each finding."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from perfdoctor.model.concluded import Finding
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase
from perfdoctor.model.recorded import Recorded
from perfdoctor.render import text

FORMULA = ("=", "+", "-", "@")  # what makes a spreadsheet compute a text

Cell = str | int | float | None


@dataclass(frozen=True)
class ExportTable:
    """Columns with the type of their values, and rows; a value that is not known is None."""

    columns: Mapping[str, type]
    rows: Sequence[Sequence[Cell]]


def steps(record: Recorded) -> ExportTable:
    """Seconds are of one step, also where a row stands for several."""
    phases = {f"{phase.value}_s": phase for phase in Phase}
    columns = {"step": int, "steps": int, "begin_s": float, "seconds": float}
    return ExportTable(
        columns | dict.fromkeys(phases, float) | {"samples": float, "loss": float},
        [
            (
                *(step.number, round(step.steps), step.begin_s, step.seconds),
                *(step.phases.get(phase, 0.0) for phase in phases.values()),
                *(step.samples, step.loss),
            )
            for step in record.steps
        ],
    )


def samples(record: Recorded) -> ExportTable:
    """Processes of the run as they were sampled; what could not be read is not known."""
    columns = {"at_s": float, "pid": int, "role": str, "cpu_s": float, "threads": int}
    columns |= dict.fromkeys(("rss_bytes", "read_bytes", "written_bytes"), int)
    return ExportTable(columns, [tuple(getattr(one, name) for name in columns) for one in record.host])


def stacks(record: Recorded) -> ExportTable:
    """Distinct stacks; frames are one text, as in a folded file."""
    columns = {"thread": str, "phase": str, "frames": str, "samples": int}
    rows = [(one.thread, one.phase, ";".join(one.frames), one.samples) for one in record.stacks]
    return ExportTable(columns, rows)


def findings(found: Iterable[Finding]) -> ExportTable:
    """Findings, best first, at the first line that each names; a gain is a speedup."""
    columns = {"rank": int, "id": str, "bottleneck": str, "title": str}
    columns |= dict.fromkeys(("gain_low", "gain_likely", "gain_high"), float)
    columns |= {"file": str, "line": int, "because": str}
    rows = []
    for one in found:
        at = one.advice.at[0] if one.advice.at else None
        place = (at.file, at.line) if at is not None else (None, None)
        gain = (one.gain.low, one.gain.likely, one.gain.high) if one.advice.change else (None, None, None)
        because = "; ".join(one.advice.because)
        rows.append((one.rank, one.id, one.bottleneck.value, one.title, *gain, *place, because))
    return ExportTable(columns, rows)


def as_csv(table: ExportTable) -> str:
    """The table as CSV; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_cell(value) for value in row] for row in table.rows)
    return out.getvalue()


def _cell(value: Cell) -> Cell:
    """A text that a spreadsheet would compute gets an apostrophe in front."""
    if isinstance(value, str):
        plain = text.escape_control(value)
        return f"'{plain}" if plain.lstrip().startswith(FORMULA) else plain
    return float(f"{value:.9g}") if isinstance(value, float) else value
