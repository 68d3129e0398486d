import pytest

pytest.importorskip("torch")

from perfdoctor.probe.profiler.function_calls import FunctionCalls
from perfdoctor.wire.step_rows import OTHER


def look(seen, first, second):
    """A pair of steps with so many calls each."""
    seen.begin()
    for _ in range(first):
        seen.before(OTHER, len, (), {}, 0)
    seen.next()
    for _ in range(second):
        seen.before(OTHER, len, (), {}, 0)


@pytest.mark.parametrize(("first", "second"), [(3, 7), (7, 3), (7, 7)])
def test_the_larger_step_of_a_pair_tells(first, second):
    seen = FunctionCalls()
    look(seen, first, second)
    assert seen.tell(1, 0.1) == 0.0
    assert seen.calls == 7


def test_a_pair_that_is_cut_short_tells_nothing():
    seen = FunctionCalls()
    look(seen, 5, 5)
    seen.tell(1, 0.1)
    look(seen, 50, 50)
    seen.end()
    assert seen.calls == 5
