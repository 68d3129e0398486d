from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.trace.measure.device_activity import activity
from tests.support.traces import Recording

KERNEL, COMM, COPY = "gemm", "ncclDevKernel_AllReduce", "Memcpy DtoD (Device -> Device)"
rows = st.lists(
    st.tuples(
        st.sampled_from([KERNEL, COMM, COPY]), st.integers(0, 40), st.integers(-4, 12), st.integers(0, 2)
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(rows, st.integers(0, 50), st.integers(0, 20))
def test_every_measure_counts_the_nanoseconds_it_names(
    events: list[tuple[str, int, int, int]], begin: int, length: int
) -> None:
    made = Recording()
    for name, first, duration, stream in events:
        add = made.copy if name == COPY else made.kernel
        add(name, first / 1000, (first + duration) / 1000, stream=stream)
    trace = made.trace()
    communication = np.array([trace.names[name] == COMM for name in trace.device.name.tolist()], bool)
    found = activity(trace.device, communication).times(begin, begin + length)
    window = set(range(begin, begin + length))
    kernels, comm, copies = (
        {at for name, first, duration, _ in events if name == kind for at in range(first, first + duration)}
        & window
        for kind in (KERNEL, COMM, COPY)
    )
    counted = {
        "span_us": len(window), "busy_us": len(kernels | comm | copies), "compute_us": len(kernels),
        "comm_us": len(comm), "overlap_us": len(kernels & comm), "copy_us": len(copies),
        "copy_overlap_us": len(kernels & copies), "exposed_comm_us": len(comm - kernels),
        "idle_us": len(window - kernels - comm - copies),
    }  # fmt: skip
    assert {name: round(getattr(found, name) * 1000) for name in counted} == counted


def test_begin_and_end_are_those_of_all_events_even_without_a_duration() -> None:
    made = Recording()
    made.kernel("a", 3, 3)
    made.kernel("b", 5, 9)
    found = activity(made.trace().device, np.zeros(2, bool))
    assert (found.begin_ns, found.end_ns, found.busy.total_ns) == (3000, 9000, 4000)


def test_stretches_that_are_measured_together_are_those_measured_alone() -> None:
    made = Recording()
    for begin in range(0, 40, 10):
        made.kernel(KERNEL, begin, begin + 4)
        made.copy(COPY, begin + 3, begin + 6, stream=9)
    found = activity(made.trace().device, np.zeros(8, bool))
    begin, end = np.array([0, 3000, 3000, 50_000]), np.array([40_000, 3000, 27_500, 60_000])
    alone = [found.times(*stretch) for stretch in zip(begin.tolist(), end.tolist(), strict=True)]
    assert found.each(begin, end) == alone
    assert [times.busy_us for times in alone] == [24.0, 0.0, 15.0, 0.0]
    assert found.each(begin[:0], end[:0]) == []


def test_memsets_are_copies_not_kernels() -> None:
    made = Recording()
    made.memset(0, 4)
    found = activity(made.trace().device, np.zeros(1, bool)).times(0, 4000)
    assert (found.copy_us, found.compute_us) == (4.0, 0.0)
