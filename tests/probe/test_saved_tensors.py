"""What a node saved is asked for only where that runs no code of the script, on every torch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe import patch
from perfdoctor.probe.saved_tensors import PUSH, REGISTER, HooksGiven, is_saved_plainly, watch_hooks
from tests.support.saved_hooks import unwatched

TELLS = hasattr(torch._C._autograd.SavedTensor, "unpack_hook")


@pytest.fixture(autouse=True)
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    unwatched(monkeypatch)


def same(value: Any) -> Any:
    return value


class Product:
    """Something that was saved, for as long as its graph is kept."""

    def __init__(self) -> None:
        value = torch.ones(2, requires_grad=True)
        self.result = value * value
        self.saved = self.result.grad_fn._raw_saved_self


def pushed() -> Product:
    with torch.autograd.graph.saved_tensors_hooks(same, same):
        return Product()


def pushed_by_hand() -> Product:
    torch._C._autograd._push_saved_tensors_default_hooks(same, same)
    try:
        return Product()
    finally:
        torch._C._autograd._pop_saved_tensors_default_hooks()


def registered() -> Product:
    product = Product()
    product.saved.register_hooks(same, same)
    return product


def test_what_nobody_packs_is_saved_plainly() -> None:
    watch_hooks(torch)
    product = Product()
    assert is_saved_plainly(product.saved)


@pytest.mark.parametrize("given", [pushed, pushed_by_hand, registered])
def test_what_has_hooks_is_not(given: Any) -> None:
    watch_hooks(torch)
    product = given()
    assert not is_saved_plainly(product.saved)


@pytest.mark.skipif(TELLS, reason="saved tensors tell of their hooks")
def test_where_hooks_are_not_told_one_that_was_given_stands_for_all() -> None:
    before = Product()
    assert not is_saved_plainly(before.saved)  # nobody looks yet
    watch_hooks(torch)
    assert is_saved_plainly(before.saved)
    pushed()
    assert not is_saved_plainly(before.saved)


def test_hooks_are_watched_once_and_only_where_saved_tensors_do_not_tell() -> None:
    autograd = torch._C._autograd
    was = getattr(autograd, PUSH), getattr(autograd.SavedTensor, REGISTER)
    for _ in range(2):
        watch_hooks(torch)
        watched = getattr(autograd, PUSH), getattr(autograd.SavedTensor, REGISTER)
        assert tuple(getattr(one, "__wrapped__", one) for one in watched) == was
    assert (watched == was) is TELLS
    assert HooksGiven.is_watched is not TELLS


@pytest.mark.skipif(TELLS, reason="saved tensors tell of their hooks")
def test_hooks_that_cannot_be_watched_may_have_been_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch, "wrap", lambda *ways: None)
    watch_hooks(torch)
    product = Product()
    assert not is_saved_plainly(product.saved)
