from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.unused_gradients import UnusedGradientFacts
from perfdoctor.model.measured import Location
from perfdoctor.tips.unused_gradients import unused_gradients as tip
from tests.support.facts import gain, step

STEP = step(forward=4, backward=6)
AT = Location("train.py", 30, "main", "optimizer = Adam(model.head.parameters())")


def orphans(needless: float, of_elements: float = 0.9) -> UnusedGradientFacts:
    return UnusedGradientFacts(12, 900_000, of_elements, needless, AT)


def test_names_the_gradients_that_nobody_uses_and_the_optimizer_that_lacks_them():
    advice = tip(STEP, orphans(0.8))
    assert advice is not None
    assert advice.because == (
        "900,000 parameters get gradients in backward, but belong to no optimizer",
        "90% of those with gradients; backward takes 60% of the step",
        "80% of backward's operations serve only these",
    )
    assert advice.at == (AT,)
    found = gain(advice)
    assert 1 < found.low < found.likely < found.high <= 1 / (1 - 0.6)


def test_a_model_of_its_own_is_called_without_gradients():
    call = Location("train.py", 50, "main", "targets = teacher(images)")
    advice = tip(STEP, replace(orphans(0.8), called_at=call))
    assert advice is not None
    assert advice.at == (call, AT)
    assert advice.code is not None
    assert advice.code.startswith("with torch.no_grad():")


def test_a_part_of_a_model_is_frozen_where_it_is_made():
    made = Location("model.py", 50, "__init__", "self.body = Body(width)")
    advice = tip(STEP, replace(orphans(0.8), part_at=(made,)))
    assert advice is not None
    assert advice.at == (made, AT)
    assert advice.code is not None
    assert advice.code.startswith("model.backbone.requires_grad_(False)")


def test_beside_trained_layers_only_the_gradients_of_their_own_weights_go():
    spread = gain(tip(STEP, orphans(0.0, of_elements=0.9)))
    assert spread.low == 1.0
    assert spread.likely == pytest.approx(1 / (1 - 0.6 * 0.9 * 0.5 * 0.5))


@pytest.mark.parametrize(
    ("nodes", "weights", "went"),
    [(0.47, 0.84, 0.75), (0.53, 0.81, 0.79), (0.54, 0.75, 0.69)],
    ids=["sample", "graded-texts", "peptides"],
)
def test_of_a_model_of_its_own_the_weights_tell_what_goes(nodes, weights, went):
    spread = gain(tip(STEP, replace(orphans(nodes, of_elements=weights), apart=weights)))
    assert spread.likely == pytest.approx(1 / (1 - 0.6 * went), rel=0.1)
    assert spread.low < 1 / (1 - 0.6 * went) < spread.high


def test_a_frozen_table_weighs_nothing():
    by_nodes = gain(tip(STEP, orphans(0.3, of_elements=0.3)))
    table = gain(tip(STEP, replace(orphans(0.3, of_elements=0.3), apart=0.0)))
    assert table.likely == by_nodes.likely
    assert table.low == 1.0


@pytest.mark.parametrize(
    ("of_step", "found"),
    [
        pytest.param(STEP, orphans(0.08, of_elements=0.08), id="few-operations"),
        pytest.param(step(forward=99, backward=1), orphans(1.0), id="hardly-any-backward"),
    ],
)
def test_is_silent(of_step, found):
    assert tip(of_step, found) is None


def test_fires_just_above_the_threshold():
    assert tip(STEP, orphans(0.1, of_elements=0.1)) is not None


@pytest.mark.parametrize(
    ("at_rest", "words"),
    [
        (900_000, "but their learning rate is 0"),
        (1_000, "but belong to no optimizer, or their learning rate is 0"),
    ],
)
def test_a_learning_rate_of_zero_is_told(at_rest, words):
    advice = tip(STEP, replace(orphans(0.8), at_rest=at_rest))
    assert advice is not None
    assert advice.because[0] == f"900,000 parameters get gradients in backward, {words}"
