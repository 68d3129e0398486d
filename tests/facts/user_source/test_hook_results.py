from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.hook_results import hook_result
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from tests.support.records import source_of

TRAINER = """
class Hook:
    def before_run(self, state): pass
    def after_step(self, state): pass

class Trainer:
    def __init__(self, model, hooks):
        self.model, self.hooks = model, hooks
    def emit(self, event):
        for hook in self.hooks:
            getattr(hook, event)(self.state)
"""
SCORES = """
import numpy as np
from trainer import Hook

def spread(values, width):
    table = np.pad(values, width).cumsum(0)
    return table[width:] - table[:-width]

class Table:
    def __init__(self, widths):
        self.widths = widths
    def score(self, forecast, observed):
        found = np.zeros(len(self.widths))
        for i, width in enumerate(self.widths):
            found[i] = (spread(forecast, width) - spread(observed, width)).mean()
        return {"found": found}

class Scores(Hook):
    def __init__(self, every):
        self.every, self.table, self.latest, self.past = every, Table((1, 3, 5)), None, []
    def after_step(self, state):
        {body}
    {more}
"""
KEEPS = "self.latest = self.table.score(state.forecast.numpy(), state.observed.numpy())  # asked"
READS = """
        if state.step % self.every == 0:
            found = " ".join(f"{v:.2f}" for v in self.latest["found"])
            print(f"scores {found}")"""


def result(body: str, more: str = "", base: str = "Hook", **files: str):
    """Of the line that is marked, in a hook of a file beside its trainer's."""
    texts = {
        "trainer": TRAINER.strip("\n"),
        "scores": SCORES.strip("\n")
        .replace("{body}", body)
        .replace("{more}", more)
        .replace("(Hook)", f"({base})"),
        "train": "from trainer import Trainer\nfrom scores import Scores\n",
        **{name: dedent(text).strip("\n") for name, text in files.items()},
    }
    line = next(n for n, text in enumerate(texts["scores"].split("\n"), 1) if "# asked" in text)
    sources = Sources(source_of(**texts))
    return hook_result(sources, Location("/home/me/scores.py", line), ["/home/me/train.py"])


def test_what_is_kept_and_printed_every_so_many_steps_is_only_reported():
    found = result(KEEPS + READS)
    assert found is not None
    assert found.test == "state.step % self.every == 0"


@pytest.mark.parametrize(
    "body",
    [
        "found = self.table.score(state.forecast, state.observed)  # asked\n        print(found)",
        "self.table.score(state.forecast, state.observed)  # asked",
        "self.latest = self.table.score(state.forecast, state.observed)  # asked",
        KEEPS + "\n        print(self.latest)",
        KEEPS
        + "\n        for key, value in self.latest.items():\n            writer.add_scalar(key, value, state.step)",
        "self.past.append(float(state.loss))  # asked\n        print(np.mean(self.past))",
    ],
)
def test_other_ways_to_report(body):
    found = result(body)
    assert found is not None
    assert found.test is None


@pytest.mark.parametrize(
    "body",
    [
        "state.scores = self.table.score(state.forecast, state.observed)  # asked",
        "found = self.table.score(state.forecast, state.observed)  # asked\n        state.logs.update(found)",
        "found = self.table.score(state.forecast, state.observed)  # asked\n        return found",
        KEEPS + "\n        if self.latest['found'].mean() < 0.1:\n            state.stop = True",
        KEEPS + "\n        if self.latest['found'].mean() < 0.1:\n            return True",
        KEEPS + "\n        if self.latest['found'].mean() < 0.1:\n            raise StopTraining",
        "found = self.table.score(state.forecast, state.observed)  # asked\n        state.scheduler.step(found['found'])",
        "state.optimizer.step()  # asked",
        "elsewhere(state)  # asked",
        "if state.forecast is not None:  # asked\n            print(state)",
        "global SEEN\n        SEEN = self.table.score(state.forecast, state.observed)  # asked",
        "rows = state.rows\n        rows[0] = self.table.score(state.forecast, state.observed)  # asked",
    ],
)
def test_what_may_reach_the_training_is_not(body):
    assert result(body) is None


@pytest.mark.parametrize(
    ("more", "files"),
    [
        ("def worst(self):\n        return self.latest['found'].min()", {}),
        ("def after_epoch(self, state):\n        if self.latest is None:\n            state.stop = True", {}),
        ("", {"train": "from scores import Scores\nhook = Scores(5)\nrate = hook.latest['found'].mean()"}),
        ("", {"train": "import scores\nhook = scores.Scores(5)\nrate = getattr(hook, 'latest')"}),
        (
            "",
            {
                "train": "from scores import Scores\nclass Mine(Scores):\n    def best(self): return self.latest"
            },
        ),
        ("", {"trainer": TRAINER + "\n    def stop(self, hook):\n        return hook.latest is None\n"}),
        (
            "",
            {
                "trainer": TRAINER.replace(
                    "def before_run(self, state): pass", "def best(self): return self.latest"
                )
            },
        ),
    ],
)
def test_an_attribute_that_others_may_read_is_not(more, files):
    assert result(KEEPS, more, **files) is None


@pytest.mark.parametrize(
    ("base", "known"),
    [
        ("object", True),
        ("pl.Callback", True),
        ("TrainerCallback", True),
        ("nn.Module", False),
        ("Metric", False),
    ],
)
def test_of_a_base_that_is_not_the_users_its_name_has_to_tell(base, known):
    assert (result(KEEPS, base=base) is not None) == known


S = "self.table.score(state.forecast, state.observed)"


@pytest.mark.parametrize(
    "body",
    [
        f"found = {S}  # asked\n        if found['found'].mean() < 0.1:\n            self.trainer.should_stop = True",
        f"self.trainer.logs['s'] = {S}  # asked",
        "self.weights *= 1 + float(state.loss)  # asked",
        "w = state.weights\n        w *= 1 - float(state.loss)  # asked",
        f"found = {S}  # asked\n        self.log('spread', found)",
        f"found = {S}  # asked\n        state.module.log_dict({{'spread': found}})",
        f"sampler = state.get_sampler()\n        sampler.weights = {S}  # asked",
        f"logs = getattr(state, 'logs')\n        logs['s'] = {S}  # asked",
        "a, c = state.hidden.chunk(2)\n        a.mul_(0.5)  # asked",
        "np.copyto(state.weights, 0.5)  # asked",
        "np.add(state.a, state.b, state.counts)  # asked",
        "probe = next(state.batches)  # asked",
        "sd = state.model.half().state_dict()  # asked",
        "w = self.balancer.compute(state.losses)  # asked\n        print(w)",
        "rows = state.dataset[0]  # asked\n        print(rows)",
        "rows = np.random.permutation(4)  # asked\n        print(rows)",
        f"found = {S}  # asked\n        state.record(**locals())",
        f"try:\n            found = {S}  # asked\n        except ValueError:\n            state.jitter *= 10",
        f"{KEEPS}\n        def stop():\n            return self.latest['found'] < 0.1\n        state.stop_when = stop",
        f"v = {S}  # asked\n        state.stop = v['found'] < 0.1 and any(v > 0 for v in state.values)",
    ],
)
def test_what_may_belong_to_others_is_not_changed(body):
    assert result(body) is None


@pytest.mark.parametrize(
    ("more", "files"),
    [
        ("def rate(self, state):\n        state.scale = lambda step: self.latest", {}),
        ("def keep(self, state):\n        state.logs.update(vars(self))", {}),
        ("@property\n    def latest(self):\n        return 1", {}),
        ("best = property(lambda self: self.latest)", {}),
        (
            "",
            {
                "train": "from scores import Scores as S\nclass Mine(S):\n    def best(self): return self.latest"
            },
        ),
        ("", {"train": "from scores import Scores\nstop = EarlyStop(Scores(5), monitor='latest')"}),
        (
            "",
            {
                "train": "from scores import Scores\ndef stop(self): return self.latest < 0.1\nScores.stop = stop"
            },
        ),
    ],
)
def test_an_attribute_that_is_read_in_other_ways_is_not(more, files):
    assert result(KEEPS, more, **files) is None


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (KEEPS + READS.replace("state.step % self.every == 0", "state.flags['%s_on' % state.name]"), ""),
        (KEEPS + READS.replace("== 0", "!= 0"), ""),
        (KEEPS + READS, "def after_run(self, state):\n        print(self.latest)"),
        (KEEPS + "\n        self.n += 1" + READS.replace("state.step", "self.n"), ""),
        (
            "self.past.append(float(state.loss))  # asked"
            + READS.replace('self.latest["found"]', "self.past"),
            "",
        ),
    ],
)
def test_a_test_that_is_another_at_the_line_is_not_named(body, more):
    body = body.replace("self.n += 1", "self.past = [*self.past, 1]").replace("self.n", "len(self.past)")
    found = result(body, more)
    assert found is not None
    assert found.test is None


def test_classes_that_inherit_in_circles_end_the_search():
    trainer = "from scores import Scores\nclass Hook(Scores):\n    pass\n"
    assert result(KEEPS, trainer=trainer) is None


def test_a_line_of_no_function_has_no_answer():
    sources = Sources(source_of(scores="x = 1"))
    assert hook_result(sources, Location("/home/me/scores.py", 1), []) is None
