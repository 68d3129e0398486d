from __future__ import annotations

import re

import pytest

from perfdoctor.tips._words import is_about

PATTERN = re.compile(r"eval|m?iou$|val$")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("loss = evaluate(model)", True),
        ("self.val_loss = run(model)", True),
        ("self.evaluator.run(model)", True),
        ("for x, y in tqdm(val_loader):", True),
        ("runEval(model)", True),
        ("mIoU[step] = 3", True),
        ("mIoU = iou_of(pred)", True),
        ("loss = evaluate(", True),
        ("loss = run(eval_loader,", False),
        ("loss = run(val_set)", False),
        ("docs = retrieval(x)", False),
        ("previous = x", False),
        (None, False),
    ],
)
def test_a_line_is_about_what_it_calls_sets_or_goes_through(text, found):
    assert is_about(PATTERN, text) is found


def test_names_count_as_well():
    assert is_about(PATTERN, None, None, "validate") is False
    assert is_about(PATTERN, "x = 1", "evaluate") is True
