"""--no-compile: what torch.compile returns runs as it is written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _stance() -> Iterator[None]:
    yield
    if hasattr(torch.compiler, "set_stance"):  # from torch 2.6 on
        torch.compiler.set_stance("default")


def test_the_compiler_is_never_asked_and_modules_keep_their_keys() -> None:
    asked = []

    def backend(graph: object, inputs: object) -> object:
        asked.append(graph)
        return graph

    with applied("no_compile") as told:
        model = torch.compile(torch.nn.Linear(4, 2), backend=backend)
        model(torch.ones(3, 4)).sum().backward()
    assert not asked
    assert list(model.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("torch.compile", "compiled", "eager")
    assert place["at"]["file"] == __file__


@pytest.mark.parametrize("decorates", [True, False])
def test_versions_without_stances_are_asked_to_disable_it(
    monkeypatch: pytest.MonkeyPatch, decorates: bool
) -> None:
    monkeypatch.delattr(torch.compiler, "set_stance", raising=False)
    model, asked = torch.nn.Linear(4, 2), []
    with applied("no_compile") as told:
        how = {"backend": lambda graph, inputs: asked.append(graph)}
        compiled = torch.compile(**how)(model) if decorates else torch.compile(model, **how)
        assert compiled(torch.ones(3, 4)).equal(model(torch.ones(3, 4)))
        assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
        assert torch.compile(len, **how) is len
    assert not asked
    assert told.applied


def test_a_script_that_compiles_nothing_is_left_as_it_is() -> None:
    with applied("no_compile") as told:
        torch.nn.Linear(4, 2)(torch.ones(3, 4))
    assert not told.applied
