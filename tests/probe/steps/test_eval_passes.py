from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from perfdoctor.wire.step_rows import UPDATE
from tests.support.watched import updates, watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def validate():
        net.eval()
        {context}:
            net(torch.ones(2, 4))
        net.train()
    def main():
        for step in range(6):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            validate()
    main()
"""


def last(folder, context):
    return watched(folder, SCRIPT.replace("{context}", context)).ranks[0].of("eval")[-1]


def test_the_callers_of_a_pass_are_noted_whether_or_not_it_records_gradients(tmp_path):
    found = last(tmp_path, "with torch.no_grad()")
    assert [line["function"] for line in found["lines"]] == ["validate", "main", "<module>"]
    assert [line["line"] for line in found["lines"]] == [8, 14, 15]
    assert (found["calls"], found["grad_calls"], found["at"]) == (6, 0, None)


def test_the_line_of_a_pass_that_records_gradients_is_noted_apart(tmp_path):
    found = last(tmp_path, "if True")
    assert (found["grad_calls"], found["at"]["line"]) == (6, 8)


TRAINS_IN_EVAL_MODE = """
    import time
    import torch
    class Net(torch.nn.Linear):
        def forward(self, batch):
            time.sleep(0.01)
            return super().forward(batch)
    net = Net(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def epoch():
        for step in range(3):
            net(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    epoch()
    net.eval()  # and never back
    with torch.no_grad():
        net(torch.ones(2, 4))
    epoch()
    epoch()
"""


def test_a_pass_in_eval_mode_that_a_backward_goes_through_is_a_forward(tmp_path):
    rank = watched(tmp_path, TRAINS_IN_EVAL_MODE).ranks[0]
    totals = rank.of("eval")[-1]
    assert (totals["calls"], totals["grad_calls"], totals["at"]) == (1, 0, None)
    steps = rank.steps[rank.steps["marker"] == UPDATE]
    assert len(steps) == 9
    assert (steps["forward"][1:] > 9e6).all()
    assert list(steps["validation"] > 9e6) == [False] * 3 + [True] + [False] * 5


ADVERSARIAL = """
    import torch
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    for step in range(5):
        net.eval()
        batch = torch.ones(2, 4, requires_grad=True)
        for _ in range(3):
            (gradient,) = torch.autograd.grad(net(batch).sum(), batch)
        net.train()
        net(batch + gradient.sign()).sum().backward()
        optimizer.step()
"""


def test_passes_in_eval_mode_for_their_gradients_are_no_validation(tmp_path):
    rank = watched(tmp_path, ADVERSARIAL).ranks[0]
    assert sum(totals["grad_calls"] for totals in rank.of("eval")) == 0
    assert (rank.steps["validation"] == 0).all()


BATCHES = """
    import time, torch
    from torch.utils.data import DataLoader, TensorDataset
    class Net(torch.nn.Linear):
        def forward(self, batch):
            time.sleep(0.01)
            return super().forward(batch)
    net = Net(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    data = TensorDataset(torch.randn(32, 4))
    train, valid = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
    def step(x):
        net(x).sum().backward(); optimizer.step(); optimizer.zero_grad()
"""


def test_validation_in_train_mode_is_told_by_the_batches_that_no_backward_uses(tmp_path):
    rank = watched(
        tmp_path,
        BATCHES
        + """
    for _ in range(3):
        for x, in train: step(x)
        with torch.no_grad():
            for x, in valid: net(x)
    """,
    ).ranks[0]
    steps = rank.steps
    assert steps["samples"].sum() == 3 * 32
    assert steps["validation"].sum() >= 6 * 10e6
    assert (steps["forward"] < 20e6).all()


def test_passes_without_gradients_within_a_step_or_between_batches_are_forwards(tmp_path):
    rank = watched(
        tmp_path,
        BATCHES
        + """
    teacher = Net(4, 1)
    for _ in range(3):
        for x, in train:
            with torch.no_grad(): teacher(x)
            step(x)
        with torch.no_grad():  # what the next epoch is to learn from
            for _ in range(5): net(x)
    """,
    ).ranks[0]
    steps = rank.steps[rank.steps["marker"] == UPDATE]
    assert (steps["validation"][1:] == 0).all()
    assert (steps["forward"][1:] > 19e6).all()
    assert (steps["samples"][1:] == 8).all()


FORCES = (
    BATCHES
    + """
    def forces(x, **options):
        x = x.clone().requires_grad_()
        energy = net(x).sum()
        return energy, torch.autograd.grad(energy, x, **options)[0]
    for _ in range(3):
        net.train()
        for x, in train:
            energy, found = forces(x, create_graph=True)
            (energy + found.pow(2).sum()).backward(); optimizer.step(); optimizer.zero_grad()
        net.eval()
        for x, in valid: forces(x)
"""
)


def test_gradients_with_respect_to_data_neither_train_nor_have_a_loss(tmp_path):
    rank = watched(tmp_path, FORCES).ranks[0]
    steps = rank.steps
    assert steps["samples"].sum() == 3 * 32
    assert steps["validation"].sum() >= 6 * 10e6
    assert (steps["forward"] < 20e6).all()
    (totals,) = rank.of("eval")[-1:]
    assert (totals["calls"], totals["grad_calls"], totals["at"]) == (6, 0, None)


def test_the_loss_of_a_step_is_not_that_of_which_it_derives(tmp_path):
    code = FORCES.replace("(energy + found.pow(2).sum())", "(0 * energy + 0 * found.sum() + 7.0)")
    steps = watched(tmp_path, code).ranks[0].steps
    assert (steps["loss"][steps["marker"] == UPDATE][1:] == 7.0).all()


NAMED = """
    import sys, torch
    class Net(torch.nn.Linear):
        def forward(self, batch):
            frame, names = sys._getframe(), set()
            while frame is not None:
                names.add(frame.f_code.co_name)
                frame = frame.f_back
            seen.append("validation" in names)
            return super().forward(batch)
    seen = []
    net, x = Net(4, 1), torch.ones(2, 4)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    def step():
        net(x).sum().backward(); optimizer.step()
    for _ in range(3): step()
    net.eval()
    with torch.no_grad(): net(x), net(x)
    for _ in range(3): step()  # of these the first one is not known to train
    assert seen == [False] * 3 + [True] * 2 + [True] + [False] * 2, seen
    net.train()
    seen.clear()
    def evaluate():
        with torch.no_grad():
            for x in torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=2): net(x)
    for x in torch.utils.data.DataLoader(torch.ones(6, 4), batch_size=2): step()
    evaluate()
    assert seen == [False] * 3 + [False] + [True] * 2, seen  # again the first one
"""


def test_a_wrapper_named_validation_is_around_a_pass_that_validates(tmp_path):
    watched(tmp_path, NAMED)


GENERATES = """
    import time, torch
    from torch import nn
    class Slow(nn.Linear):
        def forward(self, x):
            time.sleep(0.005)
            return super().forward(x)
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = Slow(4, 4), Slow(4, 4)
        def forward(self, x, encoded=None):
            return self.decoder(x + (self.encoder(x) if encoded is None else encoded))
        @torch.no_grad()
        def generate(self, x):
            encoded = self.encoder(x)
            for _ in range(4):
                x = self(x, encoded)
            return x
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def validate():
        model.eval()
        for _ in range(3):
            model.generate(torch.ones(2, 4))
            with torch.no_grad():
                model(torch.ones(2, 4))
    for step in range(9):
        model.train()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        if step in (2, 5):
            validate()
"""


def test_an_encoder_that_generation_calls_apart_validates_as_well(tmp_path):
    steps = updates(watched(tmp_path, GENERATES))
    validation_s, forward_s = steps["validation"] / 1e9, steps["forward"] / 1e9
    after = [index for index in range(9) if validation_s[index] > 0]
    assert after == [3, 6]
    assert (validation_s[after] >= 3 * 7 * 0.005).all()  # an encoder, four decoders, and both once more
    assert (forward_s[after] < np.median(forward_s) + 0.05).all()  # next to nothing of it is in forward
