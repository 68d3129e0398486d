import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe import patch
from perfdoctor.probe.compile_question import compile_question


class Doubled(torch.nn.Module):
    def forward(self, x):
        return self.step(x)

    def step(self, x):
        return 2 * x


@pytest.fixture
def seen(monkeypatch):
    """What a wrapper around `Doubled.step` was asked about."""
    calls = []
    monkeypatch.setattr(Doubled, "step", Doubled.step)
    patch.wrap(Doubled, "step", lambda args, kwargs: calls.append(args), lambda *end: None, "forward", True)
    return calls


def test_where_nothing_compiles_the_answer_is_no(seen):
    tracing, compiler = compile_question()
    assert not tracing()
    assert not compiler._is_compiling_flag
    Doubled()(torch.ones(2))
    assert len(seen) == 1


@pytest.mark.parametrize("strict", [True, False])
def test_an_export_sees_the_call_as_it_was(seen, strict):
    exported = torch.export.export(Doubled(), (torch.ones(2),), strict=strict)
    assert seen == []
    assert exported.module()(torch.ones(2)).tolist() == [2.0, 2.0]


def test_what_runs_while_torch_says_it_compiles_is_not_watched(seen):
    told = []

    def backend(graph, inputs):
        Doubled()(torch.ones(2))  # as a compiler's own passes run modules
        told.append(torch.compiler._is_compiling_flag)  # older ones raise it for exports alone
        return graph.forward

    assert torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2)).tolist() == [2.0, 2.0]
    assert [not compiles for compiles in told] == [bool(seen)]


def test_a_torch_without_the_flag_is_asked_by_its_function_alone(monkeypatch):
    monkeypatch.delattr(torch.compiler, "_is_compiling_flag")
    tracing, compiler = compile_question()
    assert tracing is torch.compiler.is_compiling
    assert not compiler._is_compiling_flag
