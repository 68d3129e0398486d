from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn

from perfdoctor.probe.loss_graph import needless, nodes_of, operation_of, parents_of, users_of, variable_of


def read(loss: Any, unused: nn.Module) -> dict[str, Any]:
    """Of each parameter's shape: the operations that compute with it, and whether only needless ones do."""
    order = nodes_of(loss.grad_fn)
    leaves = {index for index, node in enumerate(order) if variable_of(node) is not None}
    idle = {index for index in leaves if any(order[index].variable is p for p in unused.parameters())}
    parents = parents_of(order)
    gone = set(needless(parents, leaves, leaves - idle))
    return {
        str(tuple(order[leaf].variable.shape)): (
            sorted(operation_of(order[user]) for user in users),
            users <= gone,
        )
        for leaf, users in users_of(parents, leaves).items()
    }


def test_what_computes_with_a_weight_is_behind_its_transpose() -> None:
    below, head = nn.Linear(4, 8), nn.Linear(8, 1)
    found = read(head(below(torch.ones(2, 4))).sum(), below)
    assert found["(8, 4)"] == found["(8,)"] == (["AddmmBackward0"], True)
    assert found["(1, 8)"] == (["AddmmBackward0"], False)


def test_a_layer_between_trained_ones_passes_their_gradients_on() -> None:
    first, between = nn.Linear(4, 8), nn.Linear(8, 6)
    found = read(between(first(torch.ones(2, 4))).sum(), between)
    assert found["(6, 8)"] == (["AddmmBackward0"], False)


def test_a_weight_without_bias_or_gradients_of_inputs_is_followed_to_what_joins_it() -> None:
    teacher, student = nn.Linear(4, 8, bias=False), nn.Linear(4, 8)
    x = torch.ones(2, 4)
    found = read((teacher(x).relu() - student(x)).sum(), teacher)
    assert found["(8, 4)"][0] == ["SubBackward0"] or found["(8,)"][0] == ["AddmmBackward0"]
