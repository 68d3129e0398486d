import pytest

torch = pytest.importorskip("torch")

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from perfdoctor.probe.looks.op_recording import unseen


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.seen.append(function)
        return function(*args, **(kwargs or {}))


def read(tensor):
    return tensor.shape, float((tensor != 0).sum())


@pytest.mark.parametrize("mode", [Functions, Operators])
def test_no_mode_sees_what_is_asked_of_a_tensor(mode):
    tensor, hidden = torch.ones(4), unseen(read)
    with mode() as seeing:
        hidden(tensor)
        assert seeing.seen == []
        read(tensor)
        assert seeing.seen


def test_no_profiler_sees_it_and_calls_inside_of_others_end_nothing():
    tensor, hidden = torch.ones(4), unseen(read)

    def twice():
        hidden(tensor)
        return read(tensor)

    with torch.autograd.profiler.profile() as profiled:
        unseen(twice)()
        torch.neg(tensor)
    assert [event.name for event in profiled.function_events] == ["aten::neg"]


def test_what_fails_inside_leaves_all_as_it_was():
    def fails():
        raise ValueError("of its own")

    with torch.autograd.profiler.profile() as profiled, Functions() as seeing:
        with pytest.raises(ValueError, match="of its own"):
            unseen(fails)()
        torch.add(torch.ones(1), 1)
    assert seeing.seen
    assert "aten::add" in {event.name for event in profiled.function_events}
