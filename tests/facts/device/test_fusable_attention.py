from __future__ import annotations

import pytest

from perfdoctor.facts.device.fusable_attention import FusableAttention, fusable_attention
from tests.support.records import records


def found(*counts: tuple[int, int]) -> FusableAttention | None:
    events = [{"event": "written_attention", "written": written, "unfused": off} for written, off in counts]
    return fusable_attention(records(events=events).ranks[0])


@pytest.mark.parametrize(("counts", "share"), [([(2, 0)], 1.0), ([(2, 0), (4, 1)], 0.75), ([(2, 2)], 0.0)])
def test_the_last_total_counts(counts: list[tuple[int, int]], share: float) -> None:
    assert found(*counts) == FusableAttention(share)


@pytest.mark.parametrize("counts", [[], [(0, 0)], [(0, 3)]])
def test_without_attention_nothing_is_known(counts: list[tuple[int, int]]) -> None:
    assert found(*counts) is None


def test_damaged_totals_leave_no_share_below_zero() -> None:
    assert found((1, 5)) == FusableAttention(0.0)
