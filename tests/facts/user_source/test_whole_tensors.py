from __future__ import annotations

import ast
from textwrap import indent

import pytest

from perfdoctor.facts.user_source.whole_tensors import on_whole_tensors


def written(head, *body):
    (loop,) = ast.parse(f"for {head}:\n{indent(chr(10).join(body), '    ')}").body
    return on_whole_tensors(loop)


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ("p, t in zip(pred, y)", "correct += (p == t).item()", "correct += (pred == y).sum().item()"),
        ("p, t in zip(pred, y)", "correct += int(p == t)", "correct += (pred == y).sum().item()"),
        ("p, t in zip(pred, self.y)", "n += p.item() == t.item()", "n += (pred == self.y).sum().item()"),
        ("i, p in enumerate(pred)", "if p == y[i]: n += 1", "n += (pred == y).sum().item()"),
        (
            "i in range(len(y))",
            "if torch.argmax(out[i]).item() == y[i].item():\n    n += 1\ntotal += 1",
            "n += (out.argmax(1) == y).sum().item()",
        ),
        ("i in range(len(y))", "n += out[i].argmax() == y[i]", "n += (out.argmax(1) == y).sum().item()"),
        ("p in pred", "found.append(p.item())", "found.extend(pred.tolist())"),
        ("p, t in zip(pred, y)", "total += 1\nerror += abs(p - t)\nn += (p > t).item()",
         "n += (pred > y).sum().item()"),
    ],
)  # fmt: skip
def test_what_is_done_with_each_element_is_written_for_all(head, body, expected):
    assert written(head, body) == expected


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("p, t in zip(pred, y)", "right[t.item()] += (p == t).item()"),
        ("p, t in zip(pred, y)", "total += distance(p, t)"),
        ("i in range(len(y))", "total += y[i + 1].item()"),
        ("i in range(len(y))", "total += i"),
        ("p in pred", "n += 1"),
        ("p in pred", "found.append(p)"),
        ("p, t in zip(pred, y)", "if t != pad:\n    n += (p == t).item()"),
        ("p, t in zip(pred, y)", "if t == pad:\n    continue\nn += (p == t).item()"),
        ("p, t in zip(pred, y)", "t = t - 1\nn += (p == t).item()"),
        ("loss in losses", "total += loss.item()"),
        ("p in pred", "product *= p.item()"),
        ("p in pred", "found.append(names[p.item()])"),
    ],
)
def test_others_are_left_to_the_user(head, body):
    assert written(head, body) is None


def test_only_a_for_loop_is_rewritten():
    assert on_whole_tensors(ast.parse("while x: n += x.item()").body[0]) is None
