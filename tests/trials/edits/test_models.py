from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.model.trial import Place, Setting, Variant
from perfdoctor.probe.trial.tweak import ROUNDING
from perfdoctor.trials.edits.models import behind_making, under
from perfdoctor.trials.edits.patch_file import of_variant
from perfdoctor.trials.edits.script_text import ByHand, ScriptText
from tests.support import trial_results
from tests.support.applying import ran

CONTEXT = 'torch.autocast("cpu", dtype=torch.bfloat16)'
HEAD = """\
import torch
from torch import nn
from helpers import log, prepare


class Net(nn.Module):
    def forward(self, x):
        return x


criterion = nn.MSELoss()
"""


def read(tmp_path: Path, text: str) -> tuple[ScriptText, int]:
    """A script that begins as most do, and its line that is marked by `# here`."""
    whole = HEAD + textwrap.dedent(text)
    file = tmp_path / "train.py"
    file.write_text(whole)
    line = next(number for number, said in enumerate(whole.splitlines(), 1) if "# here" in said)
    return ScriptText(file), line


def mixed(tmp_path: Path, text: str, kind: str = "Net") -> str:
    script, line = read(tmp_path, text)
    return script.edited(under(script, line, kind, CONTEXT)).removeprefix(HEAD)


def compiled(tmp_path: Path, text: str, kind: str = "Net") -> str:
    script, line = read(tmp_path, text)
    return script.edited(behind_making(script, line, kind, "compile()")).removeprefix(HEAD)


NOT_SHOWN = "does not show which call|no single statement|calls nothing that is"


# ---------------------------------------------------------------- under autocast


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


# ---------------------------------------------------------------- behind what makes it

TRAIN = "for x in data:\n    loss = criterion(model(x), x)  # here\n"


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("model = Net()\n" + TRAIN, "model = Net()"),
        ("model = Net().to(device)  # the net\n" + TRAIN, "model = Net().to(device)  # the net"),
        ("model = Net(\n    1,\n)\nmodel = model.to(device)\n" + TRAIN, ")"),
        ("model = Net()\nmodel = nn.parallel.DistributedDataParallel(model)\n" + TRAIN, "model = Net()"),
        ("net = Net()\nmodel = nn.parallel.DistributedDataParallel(net)\n" + TRAIN, "net = Net()"),
        ("def build(cuda):\n    return Net().to(cuda)\n\n\nmodel = build(1)\n" + TRAIN, "model = build(1)"),
        ("model, view = Net().train(), View()\n" + TRAIN, "model, view = Net().train(), View()"),
        (
            "from accelerate import Accelerator\n\naccelerator = Accelerator()\nmodel = Net()\n"
            "model, loader = accelerator.prepare(model, loader)\n" + TRAIN,
            "model = Net()",
        ),
        ("for fold in range(5):\n    model = Net()\n" + textwrap.indent(TRAIN, "    "), "    model = Net()"),
    ],
)
def test_a_method_is_called_behind_the_statement_that_makes_the_model(
    before: str, line: str, tmp_path: Path
) -> None:
    name = "net" if "net = Net()" in before else "model"
    indent = line[: len(line) - len(line.lstrip())]
    assert compiled(tmp_path, before) == before.replace(line, f"{line}\n{indent}{name}.compile()", 1)


def test_a_model_that_is_made_as_it_is_wrapped(tmp_path: Path) -> None:
    before = "from torch.nn.parallel import DistributedDataParallel as DDP\n\nmodel = DDP(Net(), [0])\n"
    assert compiled(tmp_path, before + TRAIN) == before + "model.module.compile()\n" + TRAIN


def test_in_a_function_that_is_handed_the_model(tmp_path: Path) -> None:
    before = (
        "def epoch(loader, model, optimizer):\n    model.train()\n    for x in loader:\n        loss = model(x)  # here\n\n\n"
        "def main():\n    model = Net()\n    optimizer = torch.optim.SGD(model.parameters(), 1)\n"
        "    for _ in range(3):\n        epoch([1], model, optimizer=optimizer)\n"
    )
    assert compiled(tmp_path, before) == before.replace("Net()", "Net()\n    model.compile()")


def test_a_model_that_an_object_keeps(tmp_path: Path) -> None:
    before = (
        "class Trainer:\n    def __init__(self, model, device):\n        self.model = model.to(device)\n\n"
        "    def fit(self, x):\n        return self.model(x)  # here\n\n\n"
        "if __name__ == '__main__':\n    net = Net()\n    Trainer(net, 'cpu').fit(1)\n"
    )
    assert compiled(tmp_path, before) == before.replace("Net()\n", "Net()\n    net.compile()\n")
    with pytest.raises(ByHand, match=NOT_SHOWN):
        compiled(tmp_path, before + "    Trainer(Net(), 'cpu').fit(1)\n")


@pytest.mark.parametrize(
    ("before", "because"),
    [
        ("if large:\n    model = Net()\nelse:\n    model = Net(1)\n" + TRAIN, NOT_SHOWN),
        ("model = Net()\nif cuda:\n    model = nn.DataParallel(model)\n" + TRAIN, NOT_SHOWN),
        ("model, optimizer = build(Net(), 1)\n" + TRAIN, NOT_SHOWN),
        ("model = Net()\nfor x in data:\n    y = model(x)  # here\n    model = Net()\n", NOT_SHOWN),
        ("with open(1) as model:\n    " + TRAIN.replace("\n", "\n    "), NOT_SHOWN),
        ("def fit(model, x):\n    model(x)  # here\n\nfit(Net(), 1)\nfit(Net(), 2)\n", NOT_SHOWN),
        ("def fit(model, x):\n    model(x)  # here\n\nnet = Net()\nstart(fit)\n", NOT_SHOWN),
        ("model = Net()\nfor model in folds:\n    model(1)  # here\n", NOT_SHOWN),
        ("model = Net()\ny = map(lambda model: model(1), nets)  # here\n", NOT_SHOWN),
        ("class T:\n    @staticmethod\n    def fit(x, model):\n        model(x)  # here\n\nx = Net()\nT.fit(x, Net())\n",
         NOT_SHOWN),
        ("class T:\n    def fit(self, x, model):\n        model(x)  # here\n\nx = Net()\nT.fit(t, x, net)\n",
         NOT_SHOWN),
        ("class T:\n    def step(self, model, x):\n        self.model = model\n        self.model(x)  # here\n",
         NOT_SHOWN),
        ("def step(x):\n    model = current()\n    model(x)  # here\n", NOT_SHOWN),
        ("model = Net()\nif late:\n    model = Net(2)\n\ndef step():\n    model(1)  # here\n", NOT_SHOWN),
        ("model = Net(); model.train()\n" + TRAIN, "says more than that"),
        ("class Own(nn.Module):\n    def compile(self):\n        pass\n\nmodel = Own()\n" + TRAIN, "may have its own compile"),
    ],
)  # fmt: skip
def test_where_more_than_one_statement_may_make_it(before: str, because: str, tmp_path: Path) -> None:
    with pytest.raises(ByHand, match=because):
        compiled(tmp_path, before, "Own" if "Own" in before else "Net")


# Shapes in which another object may be meant than the one that the statement makes.
OTHERS = {
    "a-criterion-that-a-function-makes": "def make():\n    return Loss(Net())\ncriterion = make()\nclass T(Base):\n"
    "    def f(self, x):\n        criterion(self.model(x), x)  # here\n",
    "a-function-that-returns-a-wrapper": "def build(rank):\n    model = Net()\n    return nn.DataParallel(model)\n"
    "model = build(1)\nmodel(1)  # here\n",
    "a-function-that-returns-a-partial": "def build():\n    return partial(Net(), t=0)\nmodel = build()\nmodel(1)  # here\n",
    "a-function-that-returns-the-same-again": "def get(kept={}):\n    if 1 not in kept:\n        kept[1] = Net()\n"
    "    return kept[1]\nfor x in data:\n    net = get()\n    net(x)  # here\n",
    "a-function-with-a-cache": "@lru_cache\ndef get():\n    return Net()\nfor x in data:\n    net = get()\n    net(x)  # here\n",
    "bound-again-after-training": "model = Net()\ndef train():\n    model(1)  # here\ntrain()\nmodel = Net()\n",
    "bound-again-in-a-method": "class T:\n    def run(self):\n        self.m = Net()\n        self.m(1)  # here\n"
    "        self.m = Net()\nT().run()\n",
    "global": "model = Net()\ndef reset():\n    global model\n    model = Net()\ndef step(x):\n    model(x)  # here\n",
    "comprehension": "def ens(model, models, x):\n    return [model(x) for model in models]  # here\nnet = Net()\nens(net, [], 1)\n",
    "comprehension-of-the-file": "model = Net()\nys = [\n    model(1)  # here\n    for model in others\n]\n",
    "an-attribute-of-another-class": "class Eval:\n    def __init__(self):\n        self.model = Net()\nclass T(Base):\n"
    "    def step(self, x):\n        self.model(x)  # here\nEval()\n",
    "a-wrapper-of-another-class": "class Ema:\n    def __init__(self):\n        self.module = Net()\nEma()\n"
    "model = nn.parallel.DistributedDataParallel(Net())\nmodel.module(1)  # here\n",
    "compile-of-a-base": "class Base(nn.Module):\n    def compile(self):\n        pass\nclass Net(Base):\n    pass\n"
    "model = Net()\nmodel(1)  # here\n",
    "compile-is-set": "model = Net()\nmodel.compile = False\nmodel(1)  # here\n",
    "two-kinds-are-handed-in": "class P:\n    def __init__(self, net):\n        self.net = net\n    def step(self, x):\n"
    "        self.net(x)  # here\ng, d = P(Net()), P(Disc())\n",
    "wrapped-now-and-then": "class T:\n    def __init__(self, model):\n        self.model = model\n    def fit(self):\n"
    "        self.model(1)  # here\nmodel = Net()\nif ddp:\n    model = wrap(model)\nT(model).fit()\n",
    "prepared-by-others": "teacher = Net()\nstudent, loader = kd.prepare(teacher, data)\nstudent(1)  # here\n",
    "made-as-it-is-prepared": "from accelerate import Accelerator\na = Accelerator()\nmodel, opt = a.prepare(Net(), opt)\n"
    "model(1)  # here\n",
    "a-method-that-others-call": "class A(Base):\n    def step(self, model, x):\n        model(x)  # here\nprobe = Net()\n"
    "scheduler.step(probe, 1)\n",
    "two-made-by-one-statement": "def act(net, s):\n    net(s)  # here\npolicy, target = Net(), Net()\nact(policy, 1)\nact(target, 1)\n",
    "an-attack": "from attacks import PGD\nmodel = Net()\nattack = PGD(model, 8)\nattack(1)  # here\n",
    "a-trainer-of-others": "from lib import Trainer\ntrainer = Trainer(1)\nmodel = trainer.train()\nmodel(1)  # here\n",
    "a-method-of-others": "from lib import Learner\nlearn = Learner(Net())\nlearn.fit(3)  # here\n",
    "copies-of-itself": "class P:\n    def __init__(self, net):\n        self.net = net\n    def clone(self):\n"
    "        return self.__class__(copy(self.net))\n    def act(self, s):\n        self.net(s)  # here\nnet = Net()\nP(net)\n",
    "torchs-own-forward": "class Net(nn.Sequential):\n    pass\nmodel = Net()\nmodel(1)  # here\n",
    "two-instances": "class A:\n    def __init__(self):\n        self.net = Net()\non, off = A(), A()\non.net(1)  # here\n",
    "apply-of-another": "def get():\n    return Pruner(Net())\npruner = get()\nnet = pruner.apply(raw)\nnet(1)  # here\n",
    "grown-in-a-loop": "def f(model, n):\n    while n:\n        model(1)  # here\n        model = grow(model)\nnet = Net()\nf(net, 3)\n",
    "an-alias-of-before": "class A:\n    def __init__(self):\n        self.net = Net()\n        self.old = self.net\n"
    "        self.net = Net()\n        self.old(1)  # here\nA()\n",
    "packed-arguments": "model = Net()\ndef f(**model):\n    model(1)  # here\n",
    "a-body-of-a-class": "model = Net()\nclass A:\n    model = Net(2)\n    y = model(1)  # here\n",
    "otherwise-not-main": "if __name__ == '__main__':\n    model = Net()\nelse:\n    model = Net(2)\ndef f(x):\n    model(x)  # here\n",
}  # fmt: skip


@pytest.mark.parametrize("before", OTHERS.values(), ids=OTHERS)
def test_where_another_object_may_be_meant(before: str, tmp_path: Path) -> None:
    with pytest.raises(ByHand):
        compiled(tmp_path, before)


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("def train(model, x):\n    model.train()\n    model(x)  # here\n\n\nnet = Net()\ntrain(net, 1)\n", "net = Net()"),
        ("def run(model, on):\n    model(1)  # here\n\n\nnet = Net()\nrun(net, 1)\nrun(net, 2)\n", "net = Net()"),
        ("class T:\n    def fit(self, model):\n        model.train()\n        model(1)  # here\n\n\nnet = Net()\nt = T()\nt.fit(net)\n",
         "net = Net()"),
        ("def Net18():\n    return Net()\n\n\nnet = Net18()\nnet(1)  # here\n", "net = Net18()"),
    ],
)  # fmt: skip
def test_usual_shapes(before: str, behind: str, tmp_path: Path) -> None:
    assert compiled(tmp_path, before) == before.replace(behind, f"{behind}\nnet.compile()")


def test_a_model_that_calls_another_may_call_it_within_its_own_call(tmp_path: Path) -> None:
    before = (
        "class Vae(nn.Module):\n    def __init__(self):\n        self.net = Net()\n\n    def encode(self, x):\n"
        "        return self.net(x)  # here\n\n    def forward(self, x):\n        return self.encode(x)\n\nVae()\n"
    )
    for write in (mixed, compiled):
        with pytest.raises(ByHand, match="is in a model itself"):
            write(tmp_path, before)


def test_one_of_another_file_is_known_by_its_name_where_nothing_else_may_be_one(tmp_path: Path) -> None:
    before = "import torchvision\n\nmodel = torchvision.models.resnet18()\ny = model(1)  # here\n"
    assert f"with {CONTEXT}:\n    y = model(1).float()" in mixed(tmp_path, before, "ResNet")
    with pytest.raises(ByHand, match="does not show which call"):
        mixed(tmp_path, before.replace("model", "attack"), "ResNet")


def test_torchs_own_containers_stay_as_they_are(tmp_path: Path) -> None:
    # `compile()` of theirs does nothing: pytorch#150915
    with pytest.raises(ByHand, match="of torch's own Sequential does nothing"):
        compiled(tmp_path, "model = nn.Sequential(nn.Linear(1, 1))\n" + TRAIN, "Sequential")


def test_a_class_of_another_file(tmp_path: Path) -> None:
    before = "from nets import Large\n\nmodel = Large(3)\n" + TRAIN
    assert "model = Large(3)\nmodel.compile()\n" in compiled(tmp_path, before, "Large")


# ---------------------------------------------------------------- what is written, and what was tried

SCRIPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 1)

    def forward(self, x):
        return self.last(self.first(x).relu())


def train(model, criterion):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(8):
        x = torch.randn(32, 16)
        loss = criterion(model(x), x.mean(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


train(Net(), nn.MSELoss())
"""


@pytest.mark.process
def test_what_is_written_computes_what_the_trial_did_bit_for_bit(tmp_path: Path) -> None:
    tried = ran(tmp_path, SCRIPT, {"amp": {}}, 8)
    script = tmp_path / "script.py"
    (place,) = tried.told.applied
    told = Place(
        "amp", place["what"], Location(str(script), place["at"]["line"], "train"), None, place["now"]
    )
    executions = (trial_results.execution(applied=(told,)),)
    settings = (Setting("amp", ("--amp",), {}, ROUNDING),)
    result = replace(trial_results.FASTER, variant=Variant(settings), executions=executions)
    trial = trial_results.trial(result, cwd=str(tmp_path), command=("python", "script.py"))
    found = of_variant(trial, result)
    assert found.by_hand == ()
    text = ScriptText(script)
    patched = text.edited(under(text, place["at"]["line"], "Net", CONTEXT))
    assert [line[1:] for line in found.diff.splitlines() if line[:1] == "+" and line[:2] != "++"] == [
        line for line in patched.splitlines() if line not in SCRIPT.splitlines()
    ]
    # the first row has no loss: it holds what came before the first step
    assert ran(tmp_path, patched, {}, 8).losses[1:] == tried.losses[1:]
    assert ran(tmp_path, SCRIPT, {}, 8).losses[1:] != tried.losses[1:]
