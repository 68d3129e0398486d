"""What a window puts down to a function finds its line, by the source and by samples."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

import pytest

from perfdoctor.facts.device.exact_lines import (
    LineFinder,
    makes,
    of_attention,
    of_copies,
    of_kernels,
    of_waits,
)
from perfdoctor.facts.user_source.parse import LineReader, Sources
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.trace.results import BlockingCalls
from tests.support import facts
from tests.support.rank_traces import attention, copy, kernel, round_trip, site, wait

SCRIPT = """\
import torch

@torch.no_grad()
def step(model, batch):
    x = batch.to("cuda")
    loss = model(x)
    total = loss.item()
    if step_number % 10 == 0:
        print(total)
    return total

def evaluate(scores):
    weights = torch.softmax(scores, -1)
    best = scores.cpu().argmax()
    mask = scores[scores > 0]
    values = torch.from_numpy(best.numpy()).cuda()
    return mask, values
"""


def source_of(path: str, text: str) -> LineReader:
    lines = text.split("\n")
    return lambda file, line: lines[line - 1] if file == path and 0 < line <= len(lines) else None


SOURCE = source_of("/home/ann/train.py", SCRIPT)
RUN = facts.run(cwd="/home/ann", command=("train.py",))
STEP, EVALUATE = Location("train.py", 3, "step"), Location("train.py", 12, "evaluate")


def sampled(counts: Mapping[int, int]) -> StackFacts:
    costs = [LineCost(Location("/home/ann/train.py", line), 0.1, count) for line, count in counts.items()]
    return StackFacts(100, "py-spy", {Phase.OTHER: tuple(costs)})


def lines(counts: Mapping[int, int] | None = None) -> LineFinder:
    return LineFinder(Sources(SOURCE), RUN, sampled(counts) if counts else None)


def test_one_statement_that_can_have_made_the_call_is_its_line() -> None:
    ((at, share),) = lines().of(STEP, "aten::to", "HtoD")
    assert (at.line, at.function, at.text, share) == (5, "step", 'x = batch.to("cuda")', 1.0)
    assert [at.line for at, _ in lines().of(EVALUATE, "aten::to", "HtoD")] == [16]
    assert [at.line for at, _ in lines().of(EVALUATE, "aten::nonzero")] == [15]


def test_several_share_the_time_as_they_were_sampled() -> None:
    found = lines({7: 30, 9: 10, 6: 500}).of(STEP, "aten::item")
    assert [(at.line, share) for at, share in found] == [(7, 0.75), (9, 0.25)]


def test_several_without_samples_stay_untold() -> None:
    assert lines().of(STEP, "aten::item") == []


def test_a_line_that_was_recorded_itself_stays() -> None:
    assert [at.line for at, _ in lines().of(Location("train.py", 7, "step"), "aten::item")] == [7]


def test_a_file_that_cannot_be_read_tells_nothing() -> None:
    assert lines().of(Location("other.py", 3, "step"), "aten::item") == []


def test_a_file_in_another_folder_is_known_by_the_samples() -> None:
    stacks = StackFacts(9, "py-spy", {Phase.OTHER: (LineCost(Location("/far/away/net.py", 2), 0.1, 5),)})
    source = source_of("/far/away/net.py", "def f(x):\n    return x.item()\n")
    ((at, _),) = LineFinder(Sources(source), RUN, stacks).of(Location("away/net.py", 1, "f"), "aten::item")
    assert (at.file, at.line) == ("/far/away/net.py", 2)


LOOP = """\
model = net().to("cuda")
for x in batches:
    y = model(x).float()
    seen.append(y.cpu())
    opt.step()
"""


def of_module(op: str, direction: str | None, sampled_in: str = "/home/ann/train.py") -> list[int | None]:
    """A module's own frame, whose line in a window is the one at which that opened."""
    source = source_of("/home/ann/train.py", LOOP)
    costs = (LineCost(Location(sampled_in, 4), 0.1, 5),)
    stacks = StackFacts(9, "py-spy", {Phase.OTHER: costs})
    call = replace(wait(op, ms=40, idle=20, direction=direction), at=Location("train.py", 5, "<module>"))
    found = of_waits(facts.waits(call), LineFinder(Sources(source), RUN, stacks))
    return [part.at and part.at.line for part in found.calls]


def test_of_a_module_that_makes_the_steps_only_what_is_in_its_loops_is_asked() -> None:
    assert of_module("aten::to", "DtoH") == [4]
    assert of_module("aten::to", "DtoH", sampled_in="/home/ann/other.py") == [4]


def test_a_modules_line_in_a_window_says_nothing_of_a_call() -> None:
    """Nor does a method that converts on the device, `y.float()`, read a value."""
    assert of_module("aten::item", None) == [None]


def test_a_file_is_looked_for_beside_the_script_before_its_bare_name_is_tried() -> None:
    both = [source_of(path, LOOP) for path in ("/home/ann/train.py", "train.py")]
    finder = LineFinder(Sources(lambda file, line: both[0](file, line) or both[1](file, line)), RUN, None)
    ((at, _),) = finder.of(Location("train.py", 5, "<module>"), "aten::to", "DtoH")
    assert at.file == "/home/ann/train.py"


def parts(call: BlockingCalls) -> list[tuple[int | None, int, float, float]]:
    found = of_waits(facts.waits(call), lines({7: 30, 9: 10}))
    return [(use.at and use.at.line, use.count, use.us, use.idle_us) for use in found.calls]


def test_waits_are_parted_by_line() -> None:
    call = replace(wait("aten::item", ms=40, idle=20, count=40), at=STEP)
    assert parts(call) == [(7, 30, 30_000.0, 15_000.0), (9, 10, 10_000.0, 5_000.0)]


def test_without_a_function_the_sampled_lines_that_can_have_waited_share_it() -> None:
    assert parts(wait("aten::item", ms=40, idle=20, count=40, line=None))[0] == (7, 30, 30_000.0, 15_000.0)


def test_a_wait_whose_line_cannot_be_told_stays_whole() -> None:
    assert parts(wait("aten::conv2d", ms=40, idle=20, count=40)) == [(12, 40, 40_000.0, 20_000.0)]


def test_copies_round_trips_and_attention_get_their_lines() -> None:
    copied = facts.copies(
        copy("HtoD", "pinned", 5), sites=(site(line=4),), round_trips=(round_trip(),), at=(STEP,)
    )
    copies = of_copies(copied, lines())
    attended = of_attention(facts.attention(attention(), at=(EVALUATE,)), lines())
    assert [at.line for at in copies.at] == [5]
    assert [(at.line, at.text) for at in attended.at] == [(13, "weights = torch.softmax(scores, -1)")]


def test_attention_without_a_place_is_looked_for_among_the_sampled_lines() -> None:
    found = of_attention(facts.attention(attention()), lines({13: 5, 14: 90}))
    assert [at.line for at in found.at] == [13]


@pytest.mark.parametrize(
    ("text", "op", "direction"),
    [
        ("loss.item()", "aten::item", None),
        ("log(f'{loss:.3f}')", "aten::item", None),
        ("losses.append(float(loss))", "aten::_local_scalar_dense", None),
        ("if tensor.any(): pass", "aten::is_nonzero", None),
        ("rows = torch.nonzero(mask)", "aten::nonzero", None),
        ("kept = x[mask]", "aten::index", None),
        ("array = x.detach().cpu().numpy()", "aten::to", "DtoH"),
        ("x = x.cuda(non_blocking=True)", "aten::to", "HtoD"),
        ("torch.cuda.synchronize()", None, None),
    ],
)
def test_knows_what_can_make_a_call(text: str, op: str | None, direction: str | None) -> None:
    assert makes(ast.parse(text).body[0], op, direction)


@pytest.mark.parametrize(
    ("text", "op", "direction"),
    [
        ("loss.backward()", "aten::item", None),
        ("first = x[0]", "aten::index", None),
        ("x = x.cuda()", "aten::to", "DtoH"),
        ("if ready: pass", "aten::item", None),
        ("loss.item()", None, None),
        ("loss.item()", "aten::conv2d", None),
    ],
)
def test_knows_what_cannot(text: str, op: str | None, direction: str | None) -> None:
    assert not makes(ast.parse(text).body[0], op, direction)


PRODUCTS = """\
import torch
turns = torch.bmm(start, start)
for batch in loader:
    moved = torch.bmm(turns, points)
    loss = moved.square().mean()
    loss.backward()
"""


def of_products(at: Location | None, op: str | None = "aten::bmm") -> list[int | None]:
    """The lines of a kernel of the forward pass at a place, and of a gradient's at none."""
    found = LineFinder(Sources(source_of("/home/ann/train.py", PRODUCTS)), RUN, sampled({4: 20, 6: 60}))
    forward, gradient = (kernel("gemmSN", "matmul", 10, op=op) for _ in range(2))
    kernels = of_kernels(facts.kernels(replace(forward, at=at), gradient), found)
    return [use.at and use.at.line for use in kernels.kernels]


def test_a_kernel_of_a_product_is_at_the_statement_of_the_loop_that_multiplies() -> None:
    module = Location("train.py", 6, "<module>")
    assert of_products(module) == [4, None]
    assert of_products(None) == [4, 4]  # no window told places


def test_a_kernel_of_another_operator_keeps_its_function_but_no_module() -> None:
    assert of_products(Location("train.py", 6, "<module>"), "aten::pow") == [None, None]
    assert of_products(Location("train.py", 6, "<module>"), None) == [None, None]
    assert of_products(Location("train.py", 3, "step"), "aten::pow") == [3, None]
    assert of_products(None, None) == [None, None]


HEADS = """\
for x in loader:
    x = fc(x)
    scores = F.linear(x, w, b) @ x.T
"""


@pytest.mark.parametrize("op", ["aten::mm", "aten::addmm"])
@pytest.mark.parametrize("made", ["fc = nn.Linear(8, 8, bias=False)", "opt = SGD(fc.parameters())"])
def test_where_modules_multiply_too_a_product_without_a_place_stays_at_none(made: str, op: str) -> None:
    source = source_of("/home/ann/train.py", f"{made}\n{HEADS}")
    found = LineFinder(Sources(source), RUN, sampled({3: 300, 4: 3}))
    kernels = of_kernels(facts.kernels(kernel("gemm", "matmul", 10, op=op)), found).kernels
    assert [use.at for use in kernels] == [None]
    assert found.anywhere("aten::bmm")  # of no Linear


def test_where_no_module_multiplies_a_product_is_at_the_line_that_does() -> None:
    source = source_of("/home/ann/train.py", f"fc = torch.relu\n{HEADS}")
    found = LineFinder(Sources(source), RUN, sampled({3: 300, 4: 3}))
    kernels = of_kernels(facts.kernels(kernel("gemm", "matmul", 10, op="aten::mm")), found).kernels
    assert [use.at and use.at.line for use in kernels] == [4]


@pytest.mark.parametrize(
    ("statement", "op"),
    [
        ("y = x @ w", "aten::mm"),
        ("y = q @ k.transpose(-2, -1) / 8", "aten::bmm"),
        ("y = F.linear(x, w, b)", "aten::addmm"),
        ("y = torch.matmul(x, w)", "aten::bmm"),
    ],
)
def test_statements_that_multiply_matrices(statement: str, op: str) -> None:
    (node,) = ast.parse(statement).body
    assert isinstance(node, ast.stmt)
    assert makes(node, op)
    assert not makes(node, "aten::softmax")
