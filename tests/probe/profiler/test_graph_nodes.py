from types import SimpleNamespace

import pytest

from perfdoctor.probe.profiler.graph_nodes import GraphNodes


def test_each_differentiated_operation_of_a_step_is_a_node():
    torch = pytest.importorskip("torch")
    weight = torch.ones(2, requires_grad=True)
    nodes = GraphNodes(torch)
    nodes.rest()
    for _ in range(4):
        total = weight
        for _ in range(50):
            total = total * 2.0
        total.sum().backward()
    assert nodes.per_step(4) == pytest.approx(51, abs=2)


def test_operations_without_a_graph_make_no_nodes():
    torch = pytest.importorskip("torch")
    nodes = GraphNodes(torch)
    nodes.rest()
    torch.ones(2).mul(2.0).sum()
    assert nodes.per_step(1) == 0


def test_a_torch_that_does_not_tell_leaves_the_other_counts():
    nodes = GraphNodes(SimpleNamespace(autograd=SimpleNamespace()))
    nodes.rest()
    assert nodes.per_step(3) == 0
