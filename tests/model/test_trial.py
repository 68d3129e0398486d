from __future__ import annotations

import pytest

from perfdoctor.model.trial import ExecutionEnd, ExecutionSummary
from tests.support import trial_results as made


def test_a_summary_takes_means_of_times_the_most_of_memory_and_only_what_was_measured_to_the_end():
    summary = ExecutionSummary.of(
        [
            made.execution(0, 0.02, host_bytes=5),
            made.execution(1, 0.08, host_bytes=9),
            made.execution(2, 1.0, ending=ExecutionEnd.INTERRUPTED, host_bytes=99),
        ]
    )
    assert summary.step_s == pytest.approx(0.04)
    assert (summary.executions, summary.host_bytes, summary.samples_per_s) == (2, 9, None)
