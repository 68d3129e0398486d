from __future__ import annotations

import inspect

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.steps.backward_call import BACKWARD, GRAD, BackwardCall


@pytest.mark.parametrize(("function", "names"), [("grad", GRAD), ("backward", BACKWARD)])
def test_arguments_have_the_places_that_torch_gives_them(function, names):
    taken = list(inspect.signature(getattr(torch.autograd, function)).parameters)
    assert [place for place, name in enumerate(names) if name and taken[place] != name] == []


def test_what_is_asked_for_is_known_by_place_and_by_name():
    call = BackwardCall(True, ("loss", None, True), {"inputs": ("a",), "create_graph": True})
    assert (call.loss, call.seeds, call.inputs, call.makes_graph) == ("loss", None, ("a",), True)
    call = BackwardCall(False, ("loss", ("a",), "seed"), {"is_grads_batched": True})
    assert (call.loss, call.seeds, call.inputs, call.is_batched) == ("loss", "seed", ("a",), True)
    assert not call.makes_graph
    assert BackwardCall(True, ("loss",), {"grad_variables": "seed"}).seeds == "seed"
