from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.observers.repeated_prefixes import RepeatedPrefixes, Run, _names
from tests.support.watched import watched

LEFT_MS, PER_PLACE_MS = 3, 1


class Watching:
    """What the observer needs of a Watch: torch, and where events go."""

    def __init__(self):
        self.torch = torch
        self.events = []

    def write(self, event):
        self.events.append(event)


class Model:
    def forward(self, text, attention_mask=None, past=None):
        raise NotImplementedError


MODEL = Model()


def seen(*calls):
    """The last event after calls of one model, each (args, kwargs); a call takes 3 ms and 1 ms a place."""
    watching = Watching()
    totals = RepeatedPrefixes(watching)
    for args, kwargs in calls:
        length = (args[0] if args else kwargs["input_ids"]).shape[-1]
        totals.called((MODEL, *args), kwargs, (LEFT_MS + PER_PLACE_MS * length) * 1_000_000)
    totals.write()
    return watching.events[-1] if watching.events else None


def text(length, rows=2):
    return torch.arange(rows * 64).view(rows, 64)[:, :length]


def test_a_class_without_a_forward_names_no_arguments():
    assert _names(MODEL) == ("self", "text", "attention_mask", "past")
    assert _names(object()) == ()  # as a module of TorchScript's, whose objects have one


GROWING = [((text(length),), {}) for length in range(4, 25)]


def test_growing_inputs_are_told_with_what_calls_on_one_place_would_take():
    event = seen(*GROWING)
    assert (event.runs, event.calls, event.longest) == (1, 20, 24)
    assert event.seconds == pytest.approx(sum(LEFT_MS + length for length in range(5, 25)) / 1e3)
    assert event.left_s == pytest.approx(20 * (LEFT_MS + PER_PLACE_MS) / 1e3)


def test_two_rows_add_up():
    event = seen(*GROWING, *GROWING)
    assert (event.runs, event.calls) == (2, 40)
    assert event.left_s == pytest.approx(40 * (LEFT_MS + PER_PLACE_MS) / 1e3)


def test_rows_whose_inputs_nobody_compared_are_counted():
    elsewhere = [((one[0].to("meta"),), {}) for one, _ in GROWING]
    assert (seen(*elsewhere).runs, seen(*elsewhere).by_shapes) == (1, 1)
    assert (seen(*GROWING).runs, seen(*GROWING).by_shapes) == (1, 0)


def test_embeddings_and_ids_by_keyword_are_texts_as_well():
    floats = [((one[0].float()[:, :, None].expand(-1, -1, 3).transpose(1, 2),), {}) for one, _ in GROWING]
    assert seen(*floats).calls == 20
    named = [((), {"attention_mask": torch.ones_like(one[0]), "input_ids": one[0]}) for one, _ in GROWING]
    assert seen(*named).calls == 20


def test_a_text_whose_beams_changed_places_goes_on():
    beams = text(24).clone()
    beams[1, :10] = beams[0, :10]  # the paths of two beams part late
    at_look = 12  # the length at the eighth call that grew
    calls = [beams[:, :length] for length in range(4, 25)]
    assert seen(*(((one.flip(0) if one.shape[1] == at_look else one,), {}) for one in calls)).calls == 20


ALONE = text(1)


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(GROWING[:8], id="too-few"),
        pytest.param(
            [((ALONE, torch.ones(2, length, dtype=torch.long)), {}) for length in range(4, 40)], id="a-mask"
        ),
        pytest.param(
            [((ALONE,), {"past": torch.ones(2, length, 4)}) for length in range(4, 40)], id="with-a-cache"
        ),
        pytest.param(
            [((ALONE.float(), None, torch.ones(2, length, 4)), {}) for length in range(4, 40)],
            id="with-a-cache-in-third-place",
        ),
        pytest.param([((text(length),), {}) for length in (9, 12, 7, 8, 15) * 8], id="lengths-of-batches"),
        pytest.param([((text(length) + 1000 * length,), {}) for length in range(4, 40)], id="sorted-lengths"),
        pytest.param([((text(12),), {})] * 40, id="a-cropped-window"),
        pytest.param([((text(length, length),), {}) for length in range(4, 40)], id="both-dimensions"),
    ],
)
def test_other_calls_are_not(calls):
    assert seen(*calls) is None


def test_times_that_fall_with_the_length_promise_nothing():
    run = Run({})
    for length in range(2, 30):
        run.add(length, 100 - length)
    assert run.left_s() == pytest.approx(run.ns / 1e9)


def test_a_model_computes_one_place_at_least():
    run = Run({})
    for length in range(10, 30):
        run.add(length, length * length)
    assert run.left_s() == pytest.approx(run.ns * run.calls / run.lengths / 1e9)


SCRIPT = """
    import torch
    from torch import nn
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(9, 8), nn.Linear(8, 9)
        def forward(self, text):
            return self.head(self.table(text))
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def write(text):
        for _ in range(12):
            text = torch.cat([text, model(text)[:, -1:].argmax(-1)], 1)
    for step in range(20):
        model.train()
        model(torch.ones(2, 3 + step, dtype=torch.long)).sum().backward()  # a curriculum
        optimizer.step()
        model.eval()
        if step % 5 == 1:
            with torch.no_grad():
                write(torch.ones(2, 3, dtype=torch.long))
"""


@pytest.mark.process
def test_a_loop_that_writes_is_seen_and_longer_texts_in_training_are_not(tmp_path):
    last = watched(tmp_path, SCRIPT).ranks[0].of("prefixes")[-1]
    assert (last["runs"], last["calls"], last["longest"], last["generates"]) == (4, 44, 14, False)
    assert 0 < last["left_s"] <= last["seconds"]
    assert [line["function"] for line in last["lines"]] == ["write", "<module>"]
