"""What stands in files that exist already: whoever changes it has to read the old files, too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perfdoctor.model.measured import Phase
from perfdoctor.probe.inject import sitecustomize
from perfdoctor.runs import raw
from perfdoctor.wire import batch_rows, collective_rows, files, names, rows, step_rows
from tests.support.paths import ROOT


def test_the_bytes_of_the_header_are_where_they_were():
    assert (rows.HEADER_BYTES, rows.TEXT_BYTES, rows.CONTROL_BYTE, rows.SAMPLE_BYTE) == (
        4096,
        3968,
        4094,
        4093,
    )
    assert (collective_rows.NOW_BYTE, collective_rows.NOW.format) == (3968, "<qqQIHBB")
    assert collective_rows.INSIDE_BYTE == 3999


@pytest.mark.parametrize(
    ("layout", "row"),
    [
        (step_rows.STEPS, "<qqBBHIIIIIqdqqqqqqqqq"),
        (batch_rows.BATCHES, "<qqIhHIIqqqqqq"),
        (collective_rows.COLLECTIVES, "<qqqqIIBBHII"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_rows_are_packed_as_they_were(layout, row):
    assert layout.packer.format == row
    assert [code for _, code in layout.described][:2] == ["<i8", "<i8"]


def test_numbers_mean_what_they_meant():
    assert (step_rows.OPEN, step_rows.UPDATE, step_rows.END) == (0, 4, 5)
    assert (step_rows.SKIPPED, step_rows.DISTURBED, step_rows.ROLLED_UP, step_rows.FRESH) == (1, 2, 4, 8)
    assert [collective_rows.OP_NAMES[number] for number in range(1, 8)] == [
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "barrier", "other",
    ]  # fmt: skip
    assert collective_rows.ASYNC | collective_rows.DDP == 3
    assert collective_rows.OUTSIDE_GRAD_SYNC | collective_rows.UNTIMED == 12


def test_each_phase_has_its_column_and_what_is_left_is_other():
    assert [column.removesuffix("_ns") for column in step_rows.PHASE_COLUMNS] == [
        phase.value for phase in Phase if phase is not Phase.OTHER
    ]
    assert list(Phase)[step_rows.OTHER] is Phase.OTHER


def test_the_first_file_of_ours_names_files_as_the_contract_does():
    """It runs in every interpreter before anything of ours can be imported, and so repeats the names."""
    text = (ROOT / "perfdoctor" / "probe" / "inject" / "sitecustomize.py").read_text()
    assert sitecustomize.FOLDER
    for name in (names.STARTED, names.PROBE_LOG, names.WRITE_OVERLAY):
        assert f'"{name}"' in text


def test_a_file_of_a_newer_version_is_left_out_with_the_reason(tmp_path):
    path = tmp_path / "steps.rank0.bin"
    header = files.header(step_rows.STEPS, 0)
    values = [1] * len(step_rows.STEPS.columns)
    row = step_rows.STEPS.packer.pack(*values).ljust(rows.GROW_BYTES, b"\0")
    path.write_bytes(header + row)
    problems = []
    assert len(raw.read_rows(path, problems)) == 1
    assert not problems
    path.write_bytes(header.replace(b"perfdoctor.rows/1", b"perfdoctor.rows/2") + row)
    assert raw.read_rows(path, problems) is None
    (problem,) = problems
    assert (
        "written by a newer perfdoctor (perfdoctor.rows/2; this one reads perfdoctor.rows/1)"
        in problem.values["why"]
    )


@pytest.mark.parametrize("schema", [None, 3, "perfdoctor.rows/", "perfdoctor.rows/x", "perfdoctor.run/1"])
def test_what_names_no_version_has_none(schema):
    assert rows.version_of(schema) is None


@pytest.mark.process
def test_the_contract_imports_nothing_but_the_standard_library():
    code = (
        "import sys; before = set(sys.modules)\n"
        "import perfdoctor.wire.files, perfdoctor.wire.step_rows, perfdoctor.wire.collective_rows\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout == "['perfdoctor']\n"
