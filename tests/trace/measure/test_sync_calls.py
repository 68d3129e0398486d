from __future__ import annotations

import pytest

from perfdoctor.trace.measure.launches import launching_calls
from perfdoctor.trace.measure.sync_calls import SyncCalls, sync_calls
from tests.support.traces import Recording


def found(made: Recording) -> SyncCalls:
    trace = made.trace()
    return sync_calls(trace, launching_calls(trace))


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("cudaStreamSynchronize", "synchronize"),
        ("cudaDeviceSynchronize", "synchronize"),
        ("hipEventSynchronize", "synchronize"),
        ("cuCtxSynchronize", "synchronize"),
        ("urQueueFinish", "synchronize"),
        ("urEventWait", "synchronize"),
        ("zeEventHostSynchronize", "synchronize"),
        ("cudaFree", "free"),
        ("hipHostFree", "free"),
        ("cuMemFree_v2", "free"),
        ("cudaMemcpy", "copy"),
        ("cudaMemcpy2D", "copy"),
        ("hipMemcpyWithStream", "copy"),
        ("cuMemcpyHtoD_v2", "copy"),
    ],
)
def test_calls_that_block(name: str, group: str) -> None:
    made = Recording()
    made.call(name, 0, 5)
    assert getattr(found(made), group).tolist() == [0]
    assert found(made).all.tolist() == [0]


@pytest.mark.parametrize(
    "name",
    ["cudaStreamWaitEvent", "cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", "cudaLaunchKernel", "cudaEventQuery",
     "cudaMalloc", "hipMemcpyAsync", "urEnqueueEventsWait", "urEnqueueKernelLaunch"],
)  # fmt: skip
def test_calls_that_do_not(name: str) -> None:
    made = Recording()
    made.call(name, 0, 5)
    assert not len(found(made).all)


def test_an_asynchronous_copy_of_pageable_memory_blocks() -> None:
    made = Recording()
    made.call("cudaMemcpyAsync", 0, 5, correlation=1)
    made.call("cudaMemcpyAsync", 6, 7, correlation=2)
    made.copy("Memcpy DtoH (Device -> Pageable)", 1, 4, correlation=1)
    made.copy("Memcpy DtoH (Device -> Pinned)", 8, 9, correlation=2)
    assert found(made).copy.tolist() == [0]
