"""The saved runs as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perfdoctor.model.measured import RunFacts
from perfdoctor.model.trial import tweak_as_typed
from perfdoctor.render import text

UNKNOWN = "-"
HEADINGS = ("run", "verdict", "steps", "step time", "outcome", "command")
NUMBERS = ("steps", "step time")

Row = tuple[str, ...]  # a cell for each heading


def row(name: str, run: Mapping[str, Any], report: Mapping[str, Any]) -> Row:
    """A run's cells from its run.json and report.json, either of which may be empty or odd."""
    steps = _object(report.get("steps"))
    count = steps.get("count")
    mean_s = _object(steps.get("step_s")).get("mean")
    facts = _facts(name, run)
    cells = (
        name,
        str(_object(report.get("bottleneck")).get("verdict", UNKNOWN)),
        f"{count:,}" if isinstance(count, int) else UNKNOWN,
        text.seconds(mean_s) if isinstance(mean_s, (int, float)) else UNKNOWN,
        text.ending(facts),
        _tweaked(run) + text.script(facts),
    )
    return tuple(map(text.escape_control, cells))


def table(rows: Sequence[Row], width: int) -> str:
    """The rows under their headings; the command, which comes last, is cut where the width ends."""
    cells = [HEADINGS, *rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(_aligned(row, widths)) for row in cells)
    return "".join(f"{_cut(line.rstrip(), width)}\n" for line in lines)


def _aligned(row: Row, widths: Sequence[int]) -> list[str]:
    pairs = zip(HEADINGS, row, widths, strict=True)
    return [cell.rjust(width) if name in NUMBERS else cell.ljust(width) for name, cell, width in pairs]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _tweaked(run: Mapping[str, Any]) -> str:
    """`with --workers 4: ` for a run that had tweaks on."""
    told = [tweak_as_typed(str(module), values) for module, values in _object(run.get("tweaks")).items()]
    return f"with {' '.join(told)}: " if told else ""


def _facts(name: str, run: Mapping[str, Any]) -> RunFacts:
    command, code, cwd = run.get("command"), run.get("exit_code"), run.get("cwd")
    return RunFacts(
        id=name,
        command=tuple(map(str, command)) if isinstance(command, list) else (),
        exit_code=code if isinstance(code, int) else None,
        ranks=1,
        device="",
        duration_s=0.0,
        cwd=cwd if isinstance(cwd, str) else "",
        outcome=str(run.get("outcome", "lost")),
    )


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
