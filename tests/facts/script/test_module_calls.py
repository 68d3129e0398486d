from __future__ import annotations

import pytest

from perfdoctor.facts.script.module_calls import bias_facts, precision_facts, repeated_call_facts
from perfdoctor.facts.user_source.parse import Sources
from tests.support.records import no_source, records, source_of

TRAIN = "/home/me/train.py"


def at(line):
    return {"file": TRAIN, "line": line, "function": "main"}


def own(*events):
    return records(events=events).ranks[0]


def look(number, seconds=0.1, **given):
    return {"event": "calls", "look": number, "seconds": seconds, "calls": 5, **given}


def repeat(number, seconds=0.02, first=4, again=6, **given):
    return {
        "event": "repeat",
        "look": number,
        "module": "Net",
        "seconds": seconds,
        "recording": True,
        "first": at(first),
        "at": at(again),
        **given,
    }


def facts_of(*events, text=""):
    return repeated_call_facts(own(*events), Sources(source_of(train=text)))


def test_two_looks_are_too_few_to_tell():
    assert facts_of(look(1), look(2), repeat(1), repeat(2)) is None


def test_the_first_look_is_warm_up_where_others_follow():
    events = [look(1, 9.0), repeat(1, 8.0), *(look(n) for n in (2, 3, 4)), *(repeat(n) for n in (2, 3, 4))]
    (found,) = facts_of(*events).repeats
    assert (found.share, found.seen) == (pytest.approx(0.2), 1.0)
    assert (found.module, found.first.line, found.again.line, found.recording) == ("Net", 4, 6, True)


def test_the_costliest_pair_comes_first_and_rare_ones_show_how_rare_they_are():
    events = [
        look(1),
        look(2),
        look(3),
        repeat(1, again=6),
        repeat(1, 0.05, again=9),
        repeat(2, 0.05, again=9),
    ]
    often, rare = facts_of(*events).repeats
    assert (often.again.line, rare.again.line) == (9, 6)
    assert (often.seen, rare.seen) == (pytest.approx(2 / 3), pytest.approx(1 / 3))


BY_CHANCE = """def main():
    for x, y in loader:
        p = model(x)
        q = model(x).detach()
        loss = f(p, y) + weight * distance(p, q)
        loss.backward()
        optimizer.step()
        print(loss)
"""


def by_chance(text, *lines):
    events = [
        (look(n), repeat(n, first=3, again=4, by_chance=True, lines=[at(line) for line in lines]))
        for n in (1, 2, 3)
    ]
    return facts_of(*(event for pair in events for event in pair), text=text)


def test_a_pass_that_backward_does_not_use_is_in_vain_where_its_values_are_only_shown():
    shown = BY_CHANCE.replace(" + weight * distance(p, q)", "").replace("print(loss)", "print(q)")
    (found,) = by_chance(shown, 4).repeats
    assert (found.again.line, found.by_chance) == (4, True)


def test_the_target_of_a_loss_is_not_in_vain():
    assert by_chance(BY_CHANCE, 4).repeats == ()


LOSS = """def training_step(x, y):
    p = model(x)
    q = model(x).detach()
    return f(p, y) + weight * distance(p, q)
"""
METRIC = """def compute_loss(x, y):
    p = model(x)
    count_hits(x, y)
    return f(p, y)
def count_hits(x, y):
    scores = model(x).detach()
    hits.update(scores, y)
"""


def test_what_a_trainers_function_gives_back_may_be_a_loss_by_a_target():
    assert by_chance(LOSS, 3).repeats == ()
    (found,) = by_chance(METRIC, 6, 3).repeats
    assert found.by_chance


def test_the_target_that_another_function_makes_is_not_in_vain():
    helper = "def target(x):\n    return model(x).detach()\n"
    text = BY_CHANCE.replace("model(x).detach()", "target(x)") + helper
    assert by_chance(text, 10, 4).repeats == ()


def each_look(*given):
    return facts_of(*(event for n in (1, 2, 3) for event in (look(n), *(repeat(n, **one) for one in given))))


def test_how_often_one_input_was_given_is_told_whatever_number_of_inputs_there_were():
    (found,) = each_look({"count": 56, "inputs": 2}).repeats
    assert (found.count, found.times) == (56, 29)
    (old,) = each_look({"count": 56}).repeats  # recordings of older versions do not tell
    assert (old.times, old.walked, old.projections) == (2, False, False)


def test_projections_are_a_repeat_of_their_own():
    whole, part = each_look({"seconds": 0.03}, {"seconds": 0.02, "projections": True}).repeats
    assert (whole.projections, part.projections) == (False, True)
    assert (whole.share, part.share) == (pytest.approx(0.3), pytest.approx(0.2))


def test_backward_repeats_where_it_does_in_each_look():
    (always,) = each_look({"walked": True}).repeats
    assert always.walked
    events = [(look(n), repeat(n, walked=n > 1)) for n in (1, 2, 3)]
    (once_not,) = facts_of(*(event for pair in events for event in pair)).repeats
    assert not once_not.walked


def test_looks_without_repeats_say_so():
    facts = facts_of(look(1), look(2), look(3))
    assert (facts.repeats, facts.samples) == ((), 3)


def test_layers_with_a_bias_too_many_keep_their_order():
    layers = [{"event": "biased", "path": path, "elements": 8, "at": at(n)} for n, path in enumerate("cab")]
    facts = bias_facts(own(*layers, *(look(n, biased=3, biased_elements=24) for n in (1, 2, 3))))
    assert [(path, at.line) for path, at in facts.layers] == [("c", 0), ("a", 1), ("b", 2)]
    assert (facts.count, facts.elements, facts.device) == (3, 24, "cpu")


def test_without_such_layers_there_are_no_facts():
    assert bias_facts(own(look(1, biased=0))) is None


TEXT = """def main():
    for x, y in loader:
        with torch.autocast("cpu"):
            loss = f(x)
            loss.backward()
        optimizer.step()
"""


def setting(line, **given):
    return {"event": "settings", "at": at(line), "device": "cuda", **given}


def test_the_with_around_backward_is_found():
    events = (look(1, autocast="bfloat16"), setting(5, autocast_in_backward="bfloat16"))
    facts = precision_facts(own(*events), Sources(source_of(train=TEXT)))
    assert (facts.autocast, facts.in_backward, facts.scaled, facts.device) == (
        "bfloat16",
        "bfloat16",
        False,
        "cuda",
    )
    assert (facts.at.line, facts.autocast_at.line) == (5, 3)


def test_a_line_behind_the_with_is_not_inside_it():
    facts = precision_facts(own(setting(6)), Sources(source_of(train=TEXT)))
    assert facts.autocast_at is None


def test_one_scaled_loss_shows_that_there_is_a_scaler():
    facts = precision_facts(own(setting(5, scaled=True), setting(5)), Sources(no_source))
    assert facts.scaled


def test_without_backward_there_are_no_facts():
    assert precision_facts(own(), Sources(no_source)) is None
