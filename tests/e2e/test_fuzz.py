"""Damaged files: only errors that are meant for users, or pages, come of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "bench"))

from fuzz_parts import GONE, LACKING, Undamaged

process = pytest.mark.process

INPUTS, MANY = 1200, 100_000  # some 10 s; five minutes
MANY_S = 2400  # beside a busy machine


class Counts(NamedTuple):
    """The last row of the table."""

    inputs: int
    refused: int
    left_out: int
    read: int
    unexpected: int
    differ: int
    judged: int


def fuzzed(folder: Path, words: Sequence[str], planted: str = "") -> tuple[int, str, Counts]:
    """Exit status and what is printed; `planted`: code that puts a defect into a reader."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'bench')!r}); import fuzz, fuzz_readers\n{planted}\n"
    )
    command = [sys.executable, "-c", f"{program}sys.exit(fuzz.main())", *words]
    shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MANY_S, check=False)
    assert "Traceback" not in shown.stderr, shown.stderr[-2000:]
    total = next(line for line in shown.stdout.splitlines() if line.startswith("│ all"))
    counts = Counts(*(int(word.replace(",", "")) for word in re.findall(r"[\d,]+", total)))
    return shown.returncode, shown.stdout, counts


def check(status: int, shown: str, counts: Counts, judged: float) -> None:
    """Nothing unexpected came out, and neither reading nor judging, of such a share, was spared."""
    assert (status, counts.unexpected) == (0, 0), shown[-4000:]
    assert counts.inputs == counts.refused + counts.left_out + counts.read
    assert min(counts.refused, counts.left_out, counts.read) > counts.inputs / 20, (
        "damage that is noticed, and damage that does not matter"
    )
    assert counts.judged > judged * counts.inputs


@process
@pytest.mark.shows("damaged-run", "damaged-trace", "hostile-files")
def test_nothing_but_errors_meant_for_users_comes_of_damaged_files(tmp_path):
    check(*fuzzed(tmp_path, ["--inputs", str(INPUTS), "--seed", "1", "--most", "4"]), judged=0.02)


@process
@pytest.mark.slow
@pytest.mark.timeout(MANY_S)
@pytest.mark.shows("damaged-run", "damaged-trace", "hostile-files")
def test_nothing_but_errors_meant_for_users_comes_of_many_thousand_damaged_files(tmp_path):
    words = ["--inputs", str(MANY), "--seed", "2", "--jobs", "2", "--most", "50"]
    check(*fuzzed(tmp_path, words), judged=0.01)


# A measurement that was broken off: one input in some hundred, and only judging meets it.
DEFECT = """
whole = fuzz_readers.link_page.page
def page(net, cwd):
    if net.ended is not None:
        raise ZeroDivisionError("planted")
    return whole(net, cwd)
fuzz_readers.link_page.page = page
"""


@process
def test_a_defect_that_only_judging_meets_is_found_by_the_kind_of_value_that_it_needs(tmp_path):
    words = ["--reader", "net", "--every", "1000000000"]
    status, shown, counts = fuzzed(tmp_path, [*words, "--inputs", "3000", "--jobs", "2"], DEFECT)
    assert (status, counts.unexpected > 0) == (1, True), shown
    assert counts.judged < counts.differ / 4
    number = re.search(r"^--- net (\d+)$", shown, re.MULTILINE)[1]
    status, again, counts = fuzzed(tmp_path, [*words, "--only", number], DEFECT)
    assert (status, counts.inputs, counts.unexpected) == (1, 1, 1)
    assert "ZeroDivisionError: planted" in again


@process
def test_the_same_inputs_come_of_the_same_seed_in_any_number_of_processes(tmp_path):
    words = ["--reader", "net", "--inputs", "600", "--every", "1"]
    assert fuzzed(tmp_path, words)[1] == fuzzed(tmp_path, [*words, "--jobs", "2"])[1]


# ---------------------------------------------------------------- what was read is compared


ROWS = np.array([(1, 0.5), (2, 0.25)], dtype=[("step", "<i8"), ("seconds", "<f8")])
LOADER, EPOCH = {"event": "loader", "workers": 2, "at": {"line": 3}}, {"event": "epoch", "batches": 9}


@dataclass(frozen=True)
class Read:
    run: dict[str, Any] = field(default_factory=lambda: {"id": "a", "cores": 4.0})
    events: Any = (LOADER, EPOCH)
    rows: Any = field(default_factory=lambda: ROWS)


def difference(**changed: Any) -> frozenset[tuple[str, str]] | None:
    return Undamaged(Read()).difference(Read(**changed))


def test_what_reads_the_same_differs_in_nothing():
    assert difference(rows=ROWS.copy(), run={"id": "a", "cores": 4.0}) is None


@pytest.mark.parametrize("value", [2.0, True, None, "2", [], {}, -2, 10**9, 10**400])
def test_a_value_of_another_kind_is_told_by_its_place_and_kind(value):
    found = difference(events=(LOADER | {"workers": value}, EPOCH))
    assert found is not None
    assert {place for place, _ in found} == {".events.loader", ".events.loader.workers"}
    others = [difference(events=(LOADER | {"workers": other}, EPOCH)) for other in (0.5, False, "")]
    assert found not in others


def test_a_value_of_the_same_kind_differs_in_nothing_new():
    assert difference(events=(LOADER | {"workers": 3}, EPOCH)) == {(".events.loader", GONE)}


def test_a_value_that_is_lacking_is_told():
    without = {"event": "loader", "at": {"line": 3}}
    found = difference(events=(without, EPOCH))
    assert found == {(".events.loader", GONE), (".events.loader.workers", LACKING)}


def test_another_order_differs_in_no_kind():
    assert difference(events=(EPOCH, LOADER)) == frozenset()


def test_made_up_names_are_alike():
    first, second = (difference(events=(LOADER | {name: 7}, EPOCH)) for name in ("workerz", "vorkers"))
    assert first == second
    assert first != difference(events=(LOADER | {"workerz": "x"}, EPOCH))


def test_rows_are_compared_column_by_column():
    rows = ROWS.copy()
    rows["seconds"][1] = np.nan
    found = difference(rows=rows)
    assert found is not None
    assert {place for place, _ in found} == {".rows.seconds"}
    assert len(found) == 3, "the column is gone, and one from and to what is no number is there"
