from types import SimpleNamespace

import pytest

from perfdoctor.probe.profiler.cupti import TEARDOWN, cupti_taken, let_go_after_windows


@pytest.mark.shows("other-tools")
@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"CUDA_INJECTION64_PATH": "/opt/tool.so"}, "CUDA_INJECTION64_PATH"),
        ({"NSYS_PROFILING_SESSION_ID": "4"}, "NSYS_PROFILING_SESSION_ID"),
        ({"LD_PRELOAD": "/opt/libToolsInjectionProxy64.so"}, "LD_PRELOAD"),
    ],
)
def test_another_tool_that_reads_the_device_is_named(environ, named):
    assert named in (cupti_taken(environ) or "")


def test_without_another_tool_the_device_may_be_read():
    assert cupti_taken({"LD_PRELOAD": "/usr/lib/libjemalloc.so", "CUDA_INJECTION64_PATH": ""}) is None


@pytest.mark.shows("guest")
@pytest.mark.parametrize(
    ("cuda", "before", "after"),
    [
        ("13.0", {}, {TEARDOWN: "1"}),
        ("12.6", {}, {TEARDOWN: "1"}),
        ("12.4", {}, {}),  # with CUDA graphs, beginning again crashes
        ("13.0", {TEARDOWN: "0"}, {TEARDOWN: "0"}),  # as the user says
        (None, {}, {}),  # ROCm
    ],
)
def test_the_device_is_let_go_behind_a_window_where_that_is_safe(cuda, before, after):
    let_go_after_windows(SimpleNamespace(version=SimpleNamespace(cuda=cuda)), before)
    assert before == after
