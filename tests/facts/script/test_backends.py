from __future__ import annotations

from perfdoctor.facts.script.backends import (
    NOT_SEEN,
    BackendFacts,
    Tf32Settings,
    backend_facts,
    tf32_settings,
)
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from tests.support.facts import run

ON_DEVICE = run(device="Tesla V100")


def own(*events: dict[str, object]) -> RankRecords:
    return RankRecords(0, None, None, events)


def test_the_last_look_at_the_settings_counts() -> None:
    at = {"file": "train.py", "line": 9, "function": "main"}
    records = own(
        {"event": "settings", "cudnn_benchmark": False},
        {"event": "settings", "cudnn_benchmark": True, "cudnn_version": 9, "at": at},
    )
    assert backend_facts(records, ON_DEVICE) == BackendFacts(True, Location("train.py", 9, "main"), 9)


def test_what_was_not_recorded_is_said_to_be_missing() -> None:
    assert backend_facts(own({"event": "settings", "device": "cpu"}), ON_DEVICE) == NOT_SEEN
    odd = backend_facts(own({"event": "settings", "cudnn_benchmark": "odd"}), ON_DEVICE)
    assert odd == NOT_SEEN


def test_on_a_cpu_there_are_no_such_libraries() -> None:
    assert backend_facts(own({"event": "settings", "cudnn_benchmark": False}), run()) is None


def test_tf32_is_on_for_products_by_their_precision_and_for_convolutions_by_cudnn() -> None:
    off = {"event": "settings", "matmul_precision": "highest", "cudnn_tf32": True}
    high = {"event": "settings", "matmul_precision": "high", "cudnn_tf32": False}
    assert tf32_settings(own(high, off)) == Tf32Settings(products=False, convolutions=True)
    assert tf32_settings(own(off, high)) == Tf32Settings(products=True, convolutions=False)
    assert tf32_settings(own({"event": "settings"})) == tf32_settings(NOT_SEEN) == Tf32Settings()
