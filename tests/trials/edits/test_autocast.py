from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.trials.edits.autocast import under
from perfdoctor.trials.edits.script_text import ByHand, ScriptText
from tests.support.marked_script import CONTEXT, mixed


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("logits = model(x)  # here",
         f"with {CONTEXT}:\n        logits = model(x).float()  # here"),
        ("logits = model(x.to(device)[:, 1:] / 255, t=t.long())  # here",
         f"with {CONTEXT}:\n        logits = model(x.to(device)[:, 1:] / 255, t=t.long()).float()  # here"),
        ("model(x)  # here", f"with {CONTEXT}:\n        model(x)  # here"),
        ("bank[(x @ y).argmax()] = model(x)  # here",
         f"with {CONTEXT}:\n        output = model(x)\n    bank[(x @ y).argmax()] = output.float()  # here"),
        ("total @= model(x)  # here",
         f"with {CONTEXT}:\n        output = model(x)\n    total @= output.float()  # here"),
        ("loss = criterion(reduce=1, other=model(x))  # here",
         f"with {CONTEXT}:\n        output = model(x)\n    loss = criterion(reduce=1, other=output.float())  # here"),
        ("return model(x)  # here", f"with {CONTEXT}:\n        return model(x).float()  # here"),
        ("loss = criterion(model(x), y)  # here",
         f"with {CONTEXT}:\n        output = model(x)\n    loss = criterion(output.float(), y)  # here"),
        ("loss = nn.functional.mse_loss(model(x).squeeze(-1), y)  # here",
         f"with {CONTEXT}:\n        output = model(x)\n    loss = nn.functional.mse_loss(output.float().squeeze(-1), y)  # here"),
        ("total += weight * criterion(model(x[:, 1:]), y).item()  # here",
         f"with {CONTEXT}:\n        output = model(x[:, 1:])\n    total += weight * criterion(output.float(), y).item()  # here"),
        ("loss = criterion(\n        model(  # here\n            x), y)",
         f"with {CONTEXT}:\n        output = model(  # here\n                x)\n    loss = criterion(\n        output.float(), y)"),
    ],
)  # fmt: skip
def test_the_call_of_the_model_goes_below_autocast(said: str, instead: str, tmp_path: Path) -> None:
    before = f"model = Net()\n\n\ndef step(x, y, total, weight):\n    {said}\n"
    assert mixed(tmp_path, before) == before.replace(said, instead)


@pytest.mark.parametrize(
    ("said", "because"),
    [
        ("loss = criterion(prepare(x), model(x))  # here", "computes something else before"),
        ("loss = criterion(model(x), y); log(loss)  # here", "no statement that is over"),
        ("if model(x).sum() > 0:  # here\n        pass", "no statement that is over"),
        ("loss = [model(each) for each in x]  # here", "computes something else before"),
        ("loss = x and model(x)  # here", "computes something else before"),
        ("late = lambda: model(x)  # here", "no statement that is over"),
        ("loss = criterion(model(x), model(y))  # here", "does not show which call is that of Net"),
        ("loss = step(x)  # here", "calls nothing that is Net"),
        ("loss = x.to(device)  # here", "calls nothing that is Net"),
        ("a[model(x)] = 1  # here", "computes something else before"),
        ("loss = x + self.parts[0](x)  # here", "does not show which call is that of Net"),
        ("y = prior(x) + agent.policy.net(x)  # here", "does not show which call is that of Net"),
        ("y = self.net(transform(x))  # here", "does not show which call is that of Net"),
        ("y = model(x := y)  # here", "cannot be parted"),
        ("loss = model.aux + criterion(model(x), y)  # here", "computes something else before"),
        ("y = model(torch.stack(list(x)))  # here", "which autocast would round"),
        ("x = map(prepare, y)\n    y = model(*x)  # here", "which autocast would round"),
        ("teacher = torch.load(x)\n    y = model(x) - teacher(x)  # here", "does not show which call"),
        ("sample = student.generate(x)  # here", "does not show which call"),
        ("y = model(len(x), *(each @ x for each in y))  # here", "which autocast would round"),
        ("loss = criterion(\n        model\n        (x), y)  # here", "cannot be parted"),
        ("import torch.nn\n    y = model(x)  # here", "does not begin with `import torch`"),
        ("y = model(prepare(x))  # here", r"computes prepare\(x\) for Net, which autocast would round"),
        ("y = model(scale=x @ y)  # here", "which autocast would round"),
    ],
)  # fmt: skip
def test_what_may_mean_something_else_is_left_to_a_person(said: str, because: str, tmp_path: Path) -> None:
    before = f"model = Net()\n\n\ndef step(x, y):\n    {said}\n"
    with pytest.raises(ByHand, match=because):
        mixed(tmp_path, before)


def test_which_of_two_is_the_model_is_known_by_what_callers_hand_in(tmp_path: Path) -> None:
    before = "def step(model, measure, x, output):\n    loss = measure(model(x), output)  # here\n"
    with pytest.raises(ByHand, match="does not show which call"):
        mixed(tmp_path, before)
    for called in (
        "step(Net(), nn.MSELoss(), 1, 2)\n",
        "own = Net()\nstep(own, x=1, output=2, measure=criterion)\n",
    ):
        # and what it returns gets a name that the file does not use
        assert "outputs = model(x)\n    loss = measure(outputs.float(), output)" in mixed(
            tmp_path, before + called
        )
    with pytest.raises(ByHand, match="does not show which call"):
        mixed(tmp_path, before + "step(Net(), nn.MSELoss(), 1, 2)\nstep(Net(), Net(), 1, 2)\n")


@pytest.mark.parametrize(
    "before",
    [
        "def epoch(model, x):\n    y = model(x)  # here\n",
        "class Trainer:\n    def __init__(self, model):\n        self.model = model\n\n    def step(self, x):\n        y = self.model(x)  # here\n",
        "net = Net()\nif args.compile:\n    net = torch.compile(net)\ny = net(x)  # here\n",
    ],
    ids=["handed-in", "kept", "wrapped-on-one-way"],
)  # fmt: skip
def test_the_only_call_of_what_is_named_a_model_is_the_models(before: str, tmp_path: Path) -> None:
    assert ").float()  # here" in mixed(tmp_path, before)


def test_a_module_of_lightning_is_told_the_trainers_own_way(tmp_path: Path) -> None:
    before = (
        "class Task(L.LightningModule):\n    def __init__(self):\n        self.net = Net()\n\n"
        "    def training_step(self, x):\n        y = self.net(x)  # here\n        return y\n"
    )
    with pytest.raises(ByHand, match="precision='bf16-mixed'"):
        mixed(tmp_path, before)


def test_without_torch_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("from torch import nn\nmodel = Net()\ny = model(1)\n")
    with pytest.raises(ByHand, match="does not begin with `import torch`"):
        under(ScriptText(file), 3, "Net", CONTEXT)
