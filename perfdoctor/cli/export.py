"""`perfdoctor export`: a saved run in the format of another program."""

from __future__ import annotations

import shlex
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from perfdoctor.model.recorded import Recorded
    from perfdoctor.render.exports.tables import ExportTable

ELSEWHERE = "name another place: --to FILE"


class ExportFormat(str, Enum):
    """What can be written."""

    FOLDED = "folded"
    SPEEDSCOPE = "speedscope"
    CSV = "csv"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    OPENMETRICS = "openmetrics"
    PERFETTO = "perfetto"
    TENSORBOARD = "tensorboard"


class TableOf(str, Enum):
    """What a table has rows of."""

    STEPS = "steps"
    SAMPLES = "samples"
    STACKS = "stacks"
    FINDINGS = "findings"


TABLES = (ExportFormat.CSV, ExportFormat.PARQUET)
NO_TEXT = (ExportFormat.PARQUET, ExportFormat.PERFETTO, ExportFormat.TENSORBOARD)


def export(
    format_: Annotated[ExportFormat, typer.Option("--format", help="The format.", show_default=False)],
    run: Annotated[
        str | None,
        typer.Argument(metavar="[RUN]", help="A run's id or folder (default: the newest run)."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write it there (tensorboard: in that folder), not to stdout."),
    ] = None,
    what: Annotated[
        TableOf, typer.Option("--what", help="Rows of the csv or parquet table (samples: one per process).")
    ] = TableOf.STEPS,
    against: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="With --format folded: add the counts of this earlier run."),
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of the runs.")] = None,
) -> None:
    """Write a saved run in the format of another program."""
    from perfdoctor.cli import html_file, output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.runs import lookup

    _check(format_, what, run, against, out)
    path = lookup.run_directory(run, out)
    before = None if against is None else lookup.run_directory(against, out)
    if to is None:
        if format_ in NO_TEXT:
            raise PerfdoctorError(
                f"{format_.value} is no text for a terminal",
                f"give it a place: {_typed('export', run, out)} --format {format_.value} --to PLACE",
            )
        output.emit(_text(path, format_, what, out, before), sys.stdout)
        return
    if format_ is ExportFormat.TENSORBOARD:
        _tensorboard(path, Path(to))
        return
    file = html_file.checked(to, ELSEWHERE)
    if format_ is ExportFormat.PERFETTO:
        from perfdoctor.cli import trace

        trace.write_window(path, str(file), ELSEWHERE)
        return
    if format_ is ExportFormat.PARQUET:
        from perfdoctor.render.exports import parquet

        _write(file, parquet.parquet(_table(path, what)))
    else:
        _write(file, _text(path, format_, what, out, before).encode("utf-8", "backslashreplace"))
    output.say(f"wrote {to}")


def _check(
    format_: ExportFormat, what: TableOf, run: str | None, against: str | None, out: str | None
) -> None:
    """Raise PerfdoctorError where an option has no meaning for the format."""
    from perfdoctor.errors import PerfdoctorError

    if against is not None and format_ is not ExportFormat.FOLDED:
        raise PerfdoctorError(
            "--against goes with --format folded",
            f"see two runs drawn: {_typed('report', run, out)} --html FILE --against {shlex.quote(against)}",
        )
    if what is not TableOf.STEPS and format_ not in TABLES:
        raise PerfdoctorError(
            "--what goes with --format csv and --format parquet",
            f"write its rows: {_typed('export', run, out)} --format csv --what {what.value}",
        )


def _typed(verb: str, run: str | None, out: str | None = None) -> str:
    """What to type for another verb on the same run."""
    place = ("--out", out) if out else ()
    return shlex.join(("perfdoctor", verb, *([run] if run else []), *place))


def _text(path: Path, format_: ExportFormat, what: TableOf, out: str | None, before: Path | None) -> str:
    if format_ is ExportFormat.MARKDOWN:
        from perfdoctor.cli import kept_report, retry
        from perfdoctor.cli.kept_trials import ready
        from perfdoctor.render import markdown
        from perfdoctor.render.pages import report as page
        from perfdoctor.runs import directory

        found = kept_report.judge(path)
        again, here = retry.option(found.path), directory.working_folder()
        return markdown.draw(page.page(found, ready=ready(found, out), again=again, here=here))
    if format_ is ExportFormat.OPENMETRICS:
        from perfdoctor.cli import kept_report
        from perfdoctor.render.exports import openmetrics

        return openmetrics.openmetrics(kept_report.judge(path), path.name)
    from perfdoctor.render.exports import folded, speedscope, tables

    if format_ is ExportFormat.CSV:
        return tables.as_csv(_table(path, what))
    if before is not None:
        return folded.difference(_with_stacks(before), _with_stacks(path))
    record = _with_stacks(path)
    return folded.folded(record) if format_ is ExportFormat.FOLDED else speedscope.speedscope(record)


def _table(path: Path, what: TableOf) -> ExportTable:
    from perfdoctor.render.exports import tables

    if what is TableOf.FINDINGS:
        from perfdoctor.cli import kept_report

        return tables.findings(kept_report.judge(path).findings)
    of_record = {TableOf.STEPS: tables.steps, TableOf.SAMPLES: tables.samples, TableOf.STACKS: tables.stacks}
    return of_record[what](_recorded(path))


def _with_stacks(path: Path) -> Recorded:
    """What a run recorded. Raises PerfdoctorError where no stack is among it."""
    from perfdoctor.errors import PerfdoctorError

    record = _recorded(path)
    if not record.stacks:
        raise PerfdoctorError(
            f"{path.name} keeps no stack samples of rank {record.rank}",
            f"what it has is in: {_typed('export', str(path))} --format csv",
        )
    return record


def _recorded(path: Path) -> Recorded:
    from perfdoctor.facts.recorded import recorded
    from perfdoctor.runs import records

    return recorded(records.read(path, others=False))


def _tensorboard(path: Path, folder: Path) -> None:
    """Write an event file into a folder of the run's own below one; TensorBoard takes a folder for a run."""
    from perfdoctor.cli import html_file, output
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.render.exports import tensorboard
    from perfdoctor.runs import directory

    record = _recorded(path)
    if not record.steps:
        raise PerfdoctorError(
            f"{path.name} has no steps to write", f"what it has is in: {_typed('report', str(path))}"
        )
    own = folder / path.resolve().name
    try:
        directory.make_private(own)
    except OSError as error:
        raise PerfdoctorError(f"{own} cannot be made: {error.strerror}", ELSEWHERE) from None
    file = html_file.checked(str(own / tensorboard.file_name(record)), ELSEWHERE)
    _write(file, tensorboard.tensorboard(record))
    output.say(f"wrote {file}", f"show it with: tensorboard --logdir {shlex.quote(str(folder))}")


def _write(file: Path, content: bytes) -> None:
    """Write all of it or nothing."""
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.runs import directory

    try:
        directory.write_bytes(file, content)
    except OSError as error:
        raise PerfdoctorError(f"{file} cannot be written: {error.strerror}", ELSEWHERE) from None
