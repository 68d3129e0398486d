from __future__ import annotations

import gc

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.repeats import Call, CalledAgain, GraphUse, told


def test_a_backward_through_a_part_of_a_result_counts_for_the_calls_around():
    outer = GraphUse(None)
    inner = GraphUse(outer)
    weight = torch.ones(3, requires_grad=True)
    outer.watch(torch.Tensor, {"other": [weight * 3]})
    inner.watch(torch.Tensor, (weight * 2, None))
    assert [outer.in_vain, inner.in_vain] == [True, True]
    part = weight * 2
    inner.watch(torch.Tensor, part)
    part.sum().backward()
    assert weight.grad.tolist() == [2, 2, 2]
    assert [outer.in_vain, inner.in_vain] == [False, False]


def test_without_a_graph_there_is_no_saying():
    use = GraphUse(None)
    use.watch(torch.Tensor, (torch.ones(3), torch.ones(3, requires_grad=True), object()))
    assert not use.in_vain


def test_a_watched_graph_is_not_kept():
    freed = []

    class Node(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.end = End()
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    class End:
        def __del__(self):
            freed.append(True)

    use = GraphUse(None)
    result = Node.apply(torch.ones(3, requires_grad=True))
    use.watch(torch.Tensor, result)
    del result
    gc.collect()
    assert (freed, use.in_vain) == ([True], True)


def call(line, walked):
    made = Call(torch.nn.Linear(1, 1), None)
    made.lines = [{"file": "t.py", "line": line}, {"file": "t.py", "line": 9}]
    made.use = GraphUse(None)
    made.use.watched, made.use.walked = True, walked
    made.ns = 10
    return made


def test_of_two_the_one_in_vain_is_told_where_backward_goes_through_the_other():
    vain, used = call(3, False), call(4, True)
    (event,) = told(1, [CalledAgain(vain, used, False), CalledAgain(vain, used, False)])
    assert (event.first["line"], event.at["line"], event.count, event.seconds) == (4, 3, 2, 1e-8)
    assert [line["line"] for line in event.lines] == [3]
    assert not event.walked
    neither, both = CalledAgain(vain, call(4, False), False), CalledAgain(used, call(5, True), False)
    assert not list(told(1, [neither, both]))


def test_backward_goes_through_the_repeated_only_where_it_goes_through_the_needed_as_well():
    first = call(3, True)
    (event,) = told(1, [CalledAgain(first, call(3, True), True), CalledAgain(first, call(3, True), True)])
    assert (event.walked, event.count, event.inputs) == (True, 2, 1)
    (detached,) = told(1, [CalledAgain(call(3, False), call(4, True), True)])  # for a critic, then for itself
    assert not detached.walked


def test_projections_are_told_apart_from_whole_calls_with_their_part_of_the_time():
    first, again = call(3, True), call(3, True)
    part, whole = told(1, [CalledAgain(first, again, True, 0.5), CalledAgain(first, call(3, True), True)])
    assert (part.projections, part.seconds) == (True, pytest.approx(5e-9))
    assert (whole.projections, whole.seconds) == (False, pytest.approx(1e-8))
