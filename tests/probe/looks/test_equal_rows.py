from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")

from torch import nn

from perfdoctor.probe.looks.equal_rows import equal_rows, given_tensors, returns_the_same


def profiles(count=8, width=100):
    return torch.rand(count, width, generator=torch.Generator().manual_seed(0))


def told(*inputs, **named):
    """(rows, distinct, times, together), or None."""
    given = given_tensors(torch.Tensor, [*inputs, *named.values()])
    found = equal_rows(torch, given) if given is not None else None
    return None if found is None else (found.rows, found.distinct, found.times, found.together)


EACH = (40, 8, 5, True)


@pytest.mark.parametrize(
    "rows",
    [
        profiles().repeat_interleave(5, 0),
        profiles()[:, None].expand(-1, 5, -1).reshape(40, -1),
        profiles().repeat_interleave(5, 0).requires_grad_(),
        nn.Parameter(profiles().repeat_interleave(5, 0)),
        profiles().T.contiguous().T[torch.arange(40) // 5],
        profiles(8, 2_000).repeat_interleave(5, 0),
        profiles(8, 3 * 16 * 16).view(8, 3, 16, 16).repeat_interleave(5, 0),
        profiles(8, 3 * 4 * 4).view(8, 3, 4, 4).repeat_interleave(5, 0).to(memory_format=torch.channels_last),
        (profiles() > 0.5).repeat_interleave(5, 0),
        torch.arange(8).repeat_interleave(5),
    ],
    ids="interleaved viewed gradient parameter strided wide pictures channels_last mask numbers".split(),
)
def test_rows_that_are_repeated_are_counted_however_they_lie_in_memory(rows):
    assert told(rows) == EACH


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "complex64", "uint8", "int64"])
def test_rows_of_any_type(kind):
    rows = (200 * profiles()).to(getattr(torch, kind))
    assert told(rows.repeat_interleave(5, 0)) == EACH
    assert told(rows.repeat(5, 1)) == (40, 8, 5, False)


def test_a_row_that_is_expanded_is_one():
    assert told(profiles(1).expand(40, -1)) == (40, 1, 40, True)


def test_all_that_differs_from_row_to_row_counts():
    rows = profiles().repeat_interleave(5, 0)
    assert told(rows, mask=torch.ones(40, 9, dtype=torch.bool)) == EACH
    assert told(rows, torch.arange(40)) is None
    assert told(rows, {"others": [torch.rand(40, 3)]}) is None
    assert told(rows, torch.rand(100, 100), torch.rand(1, 7), torch.tensor(3.0), 0.5, None, "mean") == EACH
    assert told(rows, torch.arange(4).repeat(10)) is None


def test_what_may_differ_from_row_to_row_unseen_tells_nothing():
    rows = profiles().repeat_interleave(5, 0)
    assert told(rows, ["a", "b", "c", "d"]) is None
    assert told(rows, object()) is None
    assert told(rows, (16, 16)) == EACH


def test_one_element_that_differs_is_seen():
    rows = profiles(8, 5_000).repeat_interleave(5, 0)
    rows[torch.arange(40), torch.arange(40)] += 1
    assert told(rows) is None


def test_rows_that_are_alike_by_chance_are_not_meant():
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(8, (64,), generator=generator)
    assert told(profiles()[drawn]) is None
    assert told(drawn) is None
    assert told(profiles(3)) is None
    assert told(profiles()[drawn.sort().values]) == (64, 8, 0, True)  # a table that is sorted by profile


def test_padding_is_not_meant():
    assert told(torch.zeros(40, 9)) is None
    rows = profiles().repeat_interleave(5, 0)
    rows[::5] = 0
    assert told(rows) == (40, 16, 0, True)  # each of the eight blank rows counts


def test_what_has_no_memory_of_its_own_to_read_tells_nothing():
    from torch._subclasses.fake_tensor import FakeTensorMode

    class Own(torch.Tensor):
        pass

    rows = profiles().repeat_interleave(5, 0)
    assert told(rows.as_subclass(Own)) is None
    assert told(rows.to("meta")) is None
    assert told(rows.to_sparse()) is None
    assert told(rows, rows.to("meta")) is None
    with FakeTensorMode():
        assert told(torch.rand(40, 3)) is None
    seen = []
    torch.func.vmap(lambda row: seen.append(told(row)) or row)(rows[None])
    assert seen == [None]


def test_a_mode_of_the_scripts_sees_nothing_of_it():
    from torch.overrides import TorchFunctionMode

    from perfdoctor.probe.looks.op_recording import unseen

    calls = []

    class Seeing(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            calls.append(function)
            return function(*args, **(kwargs or {}))

    rows, drawn = profiles().repeat_interleave(5, 0), torch.get_rng_state()
    with Seeing():
        calls.clear()
        found = unseen(lambda: told(rows))()
        assert calls == []
    assert found == EACH
    assert torch.equal(drawn, torch.get_rng_state())


def same(module, rows):
    found = equal_rows(torch, [rows])
    return returns_the_same(torch, module(rows), found)


def test_a_module_that_looks_at_each_row_by_itself_returns_the_same():
    rows = profiles().repeat_interleave(5, 0)
    assert same(nn.Sequential(nn.Linear(100, 64), nn.BatchNorm1d(64)), rows) is True
    assert same(nn.Linear(100, 64).bfloat16(), rows.bfloat16()) is True
    assert same(lambda given: {"loss": given.mean(), "encoded": given}, rows) is True


def test_a_module_that_does_not_is_told():
    rows = profiles().repeat_interleave(5, 0)
    assert same(lambda given: given + torch.rand_like(given), rows) is False
    steps = profiles(1).expand(40, -1)[:, None]  # forty time steps of one sample
    assert same(nn.GRU(100, 8), steps) is False
    assert same(lambda given: given.mean(), rows) is None
    assert same(lambda given: given[:5], rows) is None
