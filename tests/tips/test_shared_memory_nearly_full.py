from __future__ import annotations

import pytest

from perfdoctor.tips.shared_memory_nearly_full import shared_memory_nearly_full as tip
from tests.support import facts
from tests.support.load_facts import memory

DOCKER = 64_000_000


def loader(workers=4, mb=6.5):
    return facts.loader(workers=workers, batch_bytes=round(mb * 1e6) if mb else None)


def test_says_what_workers_hold_and_what_there_is():
    advice = tip(loader(), memory(shm_bytes=DOCKER, shm_free_bytes=40_000_000))
    assert advice is not None
    assert advice.because[:2] == (
        "4 workers hold up to 8 batches of 6.5 MB",
        "/dev/shm has 64 MB, of which 38% were in use",
    )
    assert advice.at == (facts.LOADER_LINE,)


def test_promises_no_time():
    advice = tip(loader(mb=2), memory(shm_bytes=DOCKER, shm_free_bytes=10_000_000))
    assert advice is not None
    assert advice.change is None


@pytest.mark.parametrize(
    ("of_loader", "of_memory"),
    [
        pytest.param(loader(mb=6.3), memory(shm_bytes=DOCKER, shm_free_bytes=13_000_000), id="just-enough"),
        pytest.param(loader(mb=0.7), memory(shm_bytes=DOCKER, shm_free_bytes=1), id="others-fill-it"),
        pytest.param(loader(workers=0), memory(shm_bytes=DOCKER), id="no-workers"),
        pytest.param(loader(mb=None), memory(shm_bytes=DOCKER), id="unknown-size"),
        pytest.param(loader(), memory(shm_bytes=None), id="no-shared-memory"),
    ],
)
def test_is_silent(of_loader, of_memory):
    assert tip(of_loader, of_memory) is None
