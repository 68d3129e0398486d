from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.observers.unused_gradients import UnusedGradients
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process

SCRIPT = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    body, head = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8)), nn.Linear(8, 1)
    {frozen}
    opt = torch.optim.SGD({trained}, lr=0.1)
    for step in range(70):
        body.zero_grad()
        head(body(torch.randn(6, 4))).mean().backward()
        {by_hand}
        opt.step(); opt.zero_grad()
"""


def looks(tmp_path, frozen="", trained="head.parameters()", by_hand=""):
    script = SCRIPT.format(frozen=frozen, trained=trained, by_hand=by_hand)
    return watched(tmp_path, script).ranks[0].of("orphans")


def test_parameters_that_no_optimizer_has_are_found_once_they_stayed_as_they_were(tmp_path):
    found = looks(tmp_path)
    assert [look["tensors"] for look in found] == [0, 4, 4, 4]
    assert (found[-1]["elements"], found[-1]["of_elements"]) == (4 * 8 + 8 + 8 * 8 + 8, 112 + 9)
    assert 0 < found[-1]["needless"] < found[-1]["nodes"]
    assert (found[-1]["apart"], found[-1]["weights"]) == (112, 121)


def test_what_is_met_late_is_looked_at_again_soon(tmp_path):
    script = """
        import torch
        from torch import nn
        torch.manual_seed(0)
        body, head = nn.Linear(4, 8), nn.Linear(8, 1)
        first = torch.optim.SGD(body.parameters(), lr=0.1)
        for step in range(30):
            body(torch.randn(6, 4)).mean().backward()
            first.step(); first.zero_grad()
        del first
        opt = torch.optim.SGD(head.parameters(), lr=0.1)
        twin = nn.Linear(4, 8)
        for step in range(50):
            head(twin(torch.randn(6, 4))).mean().backward()
            opt.step(); opt.zero_grad()
    """
    found = watched(tmp_path, script).ranks[0].of("orphans")
    assert [look["tensors"] for look in found] == [0, 0, 0, 0, 2]  # backwards 4, 8, 16, 32, 64


def test_a_learning_rate_of_zero_trains_nothing(tmp_path):
    groups = '[{"params": body.parameters(), "lr": 0.0}, {"params": head.parameters()}]'
    found = looks(tmp_path, trained=groups)
    assert [look["tensors"] for look in found] == [0, 4, 4, 4]
    assert found[-1]["at_rest"] == found[-1]["elements"] == 112


def test_a_rate_that_is_zero_now_and_then_trains(tmp_path):
    groups = '[{"params": body.parameters(), "lr": 0.0}, {"params": head.parameters()}]'
    found = looks(tmp_path, trained=groups, by_hand='opt.param_groups[0]["lr"] = 0.1 * (step % 2)')
    assert all(look["tensors"] == 0 for look in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"frozen": "body.requires_grad_(False)"}, id="frozen"),
        pytest.param({"trained": "[*body.parameters(), *head.parameters()]"}, id="trained"),
        pytest.param({"by_hand": "for p in body.parameters(): p.detach().add_(p.grad)"}, id="by-hand"),
    ],
)
def test_what_is_frozen_trained_or_updated_by_hand_is_none(tmp_path, settings):
    assert all(look["tensors"] == 0 and look["needless"] == 0 for look in looks(tmp_path, **settings))


TAUGHT = """
    import torch
    from torch import nn
    class Distiller(nn.Module):
        def __init__(self, teacher):
            super().__init__()
            self.teacher, self.student = teacher, nn.Linear(4, 8)
        def forward(self, x):
            aim = self.teacher(x)
            return (self.student(x) - aim).pow(2).mean()
    teacher = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8))
    opt = torch.optim.SGD(teacher.parameters(), lr=0.1)
    for step in range(3):
        teacher(torch.randn(6, 4)).mean().backward(); opt.step(); opt.zero_grad()
    model = Distiller(teacher)
    opt = torch.optim.SGD({trained}, lr=0.1)
    for step in range(40):
        model(torch.randn(6, 4)).backward(); opt.step(); opt.zero_grad()
"""


@pytest.mark.parametrize(
    ("trained", "lines"), [("model.student.parameters()", {9}), ("model.parameters()", set())]
)
def test_a_model_that_was_trained_before_is_told_where_it_is_called_now(tmp_path, trained, lines):
    called = watched(tmp_path, TAUGHT.format(trained=trained)).ranks[0].of("orphans_called")
    assert {event["at"]["line"] for event in called} == lines


def test_a_part_of_a_model_is_told_where_it_is_made_and_where_it_is_called(tmp_path):
    script = """
        import torch
        from torch import nn
        class Body(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
            def forward(self, x):
                return self.layers(x)
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = Body(), nn.Linear(8, 1)
            def forward(self, x):
                return self.head(self.body(x))
        model = Model()
        opt = torch.optim.SGD(model.head.parameters(), lr=0.1)
        for step in range(40):
            model(torch.randn(6, 4)).mean().backward(); opt.step(); opt.zero_grad()
    """
    called = watched(tmp_path, script).ranks[0].of("orphans_called")
    assert {(event["built"]["line"], event["at"]["line"]) for event in called} == {(13, 15)}


class Shard(torch.nn.Parameter):
    """A parameter that stands for others in the graph, as a sharded model's do."""


class Hooks:
    """What a look asks of the steps."""

    torch = torch

    def __init__(self):
        self.session = Session()
        self.schedule = SimpleNamespace(backwards=99)


def test_of_sharded_parameters_nothing_is_told():
    whole = torch.nn.Parameter(torch.ones(3))
    for optimized, told in ((torch.nn.Parameter(torch.ones(3)), 1), (Shard(torch.ones(3)), 0)):
        hooks = Hooks()
        lines = SimpleNamespace(optimizers=[torch.optim.SGD([optimized], lr=0.1)])
        UnusedGradients(hooks, lines).sample(None, (whole * 2).sum())
        assert len(hooks.session.events) == told
