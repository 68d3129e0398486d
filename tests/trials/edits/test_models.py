from __future__ import annotations

import subprocess
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.model.trial import Place, Setting, Variant
from perfdoctor.probe.trial.tweak import ROUNDING
from perfdoctor.trials.edits.models import behind_making, on_argument
from perfdoctor.trials.edits.patch_file import of_variant
from perfdoctor.trials.edits.script_text import ByHand
from tests.support import trial_results
from tests.support.applying import ran
from tests.support.marked_script import CONTEXT, HEAD, mixed, read


def compiled(tmp_path: Path, text: str, kind: str = "Net") -> str:
    script, line = read(tmp_path, text)
    return script.edited(behind_making(script, line, kind, "compile()")).removeprefix(HEAD)


NOT_SHOWN = "does not show which call|no single statement|calls nothing that is"


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
        (
            "import timm\nmodel = timm.create_model(args.model, pretrained=True).to(device)\n" + TRAIN,
            "model = timm.create_model(args.model, pretrained=True).to(device)",
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
        ("from lib import wrap\nnet = Net()\nmodel = wrap(net)\n" + TRAIN, NOT_SHOWN),
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
    for made in ("model = nn.Sequential(nn.Linear(1, 1))\n", "from lib import build\nmodel = build(1)\n"):
        with pytest.raises(ByHand, match="of torch's own Sequential does nothing"):
            compiled(tmp_path, made + TRAIN, "Sequential")


def test_a_class_of_another_file(tmp_path: Path) -> None:
    before = "from nets import Large\n\nmodel = Large(3)\n" + TRAIN
    assert "model = Large(3)\nmodel.compile()\n" in compiled(tmp_path, before, "Large")


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        ("self.model = Net(3).to(device)", "self.model = Net(3).to(device)  # here\n        self.model.compile()"),
        ("ddp = DistributedDataParallel(Net())", "ddp = DistributedDataParallel(Net())  # here\n        ddp.module.compile()"),
        ("model, ema = KINDS[name](**given), None", "model, ema = KINDS[name](**given), None  # here\n        model.compile()"),
        ("return KINDS[name](**given).to(device)",
         "model = KINDS[name](**given).to(device)  # here\n        model.compile()\n        return model"),
        ("return Net(model)", "net = Net(model)  # here\n        net.compile()\n        return net"),
    ],
)  # fmt: skip
def test_the_line_that_is_known_to_have_made_it(said: str, instead: str, tmp_path: Path) -> None:
    before = f"class Trainer(Base):\n    def build(self, name, given, device):\n        {said}  # here\n"
    assert compiled(tmp_path, before) == before.replace(f"{said}  # here", instead)


@pytest.mark.parametrize(
    "said",
    [
        "fit(Net(), data)",
        "model = wrap(Net())",
        "return wrap(KINDS[name]())",
        "model = make(name)",
        "return KINDS[name](OTHERS[name]())",
        "models[name] = Net()",
        "return Net(); model = 1",
        "model, opt = accelerator.prepare(Net(), opt)",
        "agent = AGENTS[name](net_cls(3))",
        "model = DistributedDataParallel(KINDS[name](arch()))",
        "losses = Net().train(loader)",
        "outputs = Net().apply(images)",
        "logits = arch(3).to(device)(x)",
        "columns.append(Net(model(x).shape[1]))",
        "next(slots).model = Net()",
        "nonlocal model; return Net()",
    ],
)
def test_a_line_that_may_make_another_or_hands_it_on_at_once_is_left_to_a_person(
    said: str, tmp_path: Path
) -> None:
    with pytest.raises(ByHand):
        compiled(tmp_path, f"def build(name):\n    {said}  # here\n")


def test_a_class_that_may_make_something_else_is_left_to_a_person(tmp_path: Path) -> None:
    decorated = "@wrapped\nclass Late(nn.Module):\n    pass\nmodel = Late()  # here\n"
    made = "class Late(nn.Module):\n    def __new__(cls):\n        return Wrapper()\nmodel = Late()  # here\n"
    for before in (decorated, made):
        with pytest.raises(ByHand):
            compiled(tmp_path, before, "Late")


def test_what_has_to_come_before_a_wrapper_is_left_to_a_person(tmp_path: Path) -> None:
    script, line = read(tmp_path, "ddp = DistributedDataParallel(Net())  # here\n")
    with pytest.raises(ByHand, match="wraps it at once"):
        behind_making(script, line, "Net", "to(memory_format=torch.channels_last)")


# ---------------------------------------------------------------- what it is called with

LAST = "contiguous(memory_format=torch.channels_last)"


def reordered(tmp_path: Path, text: str, argument: str) -> str:
    script, line = read(tmp_path, text)
    return script.edited(on_argument(script, line, f"argument {argument} of Net", LAST)).removeprefix(HEAD)


@pytest.mark.parametrize(
    ("said", "argument", "instead"),
    [
        ("loss = criterion(model(x), y)", "1", f"loss = criterion(model(x.{LAST}), y)"),
        ("y = model(t, x[0])", "2", f"y = model(t, x[0].{LAST})"),
        ("y = model(t, images=batch['x'].to(device))", "images", f"y = model(t, images=batch['x'].to(device).{LAST})"),
        ("y = model(x / 255 - 0.5)", "1", f"y = model((x / 255 - 0.5).{LAST})"),
        ("y = model((x - m), *rest)", "1", f"y = model(((x - m).{LAST}), *rest)"),
        ("y = model(x if clean else -x)", "1", f"y = model((x if clean else -x).{LAST})"),
    ],
)  # fmt: skip
def test_a_method_is_called_on_what_the_model_is_given(
    said: str, argument: str, instead: str, tmp_path: Path
) -> None:
    before = f"model = Net()\n{said}  # here\n"
    assert reordered(tmp_path, before, argument) == before.replace(said, instead)


@pytest.mark.parametrize(
    ("said", "argument"),
    [
        ("y = model(*batch)", "1"),
        ("y = model(*heads, x)", "2"),
        ("y = model(**batch)", "images"),
        ("y = model(x)", "2"),
        ("y = model(x for x in y)", "1"),
        ("y = model(x) + model(y)", "1"),
        ("y = criterion(x)", "1"),
    ],
)
def test_an_argument_that_does_not_show_is_left_to_a_person(said: str, argument: str, tmp_path: Path) -> None:
    with pytest.raises(ByHand):
        reordered(tmp_path, f"model = Net()\n{said}  # here\n", argument)


def test_what_needs_torch_by_its_name(tmp_path: Path) -> None:
    text = "torch = None\nmodel = Net()\nmodel(x)  # here\n"
    script, line = read(tmp_path, text)
    for write in (
        lambda: on_argument(script, line, "argument 1 of Net", LAST),
        lambda: behind_making(script, line, "Net", f"to({LAST})"),
    ):
        with pytest.raises(ByHand, match="does not begin with `import torch`"):
            write()


def test_torchs_own_containers_are_moved_as_any_model(tmp_path: Path) -> None:
    script, line = read(tmp_path, "model = nn.Sequential(nn.Conv2d(1, 1, 1))\nmodel(x)  # here\n")
    written = script.edited(
        behind_making(script, line, "Sequential", "to(memory_format=torch.channels_last)")
    )
    assert "\nmodel.to(memory_format=torch.channels_last)\n" in written


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


IMAGES = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3), nn.Conv2d(16, 4, 3)

    def forward(self, x):
        return self.last(self.first(x).relu()).mean((2, 3))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(8):
    x = torch.rand(8, 3, 12, 12)
    loss = model(x - 0.5).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.process
@pytest.mark.parametrize(("tweak", "script"), [("amp", SCRIPT), ("channels_last", IMAGES)])
def test_what_is_written_computes_what_the_trial_did_bit_for_bit(
    tweak: str, script: str, tmp_path: Path
) -> None:
    tried = ran(tmp_path, script, {tweak: {}}, 8)
    file, flag = tmp_path / "script.py", tweak.replace("_", "-")
    places = [
        Place(flag, told["what"], Location(str(file), told["at"]["line"], "f"), None, told["now"])
        for told in tried.told.applied
    ]
    executions = (trial_results.execution(applied=tuple(places)),)
    settings = (Setting(flag, (f"--{flag}",), {}, ROUNDING),)
    result = replace(trial_results.FASTER, variant=Variant(settings), executions=executions)
    found = of_variant(
        trial_results.trial(result, cwd=str(tmp_path), command=("python", "script.py")), result
    )
    assert found.by_hand == ()
    subprocess.run(["patch", "-p1"], input=found.diff, text=True, cwd=tmp_path, check=True)
    # the first row has no loss: it holds what came before the first step
    assert ran(tmp_path, file.read_text(), {}, 8).losses[1:] == tried.losses[1:]
    assert ran(tmp_path, script, {}, 8).losses[1:] != tried.losses[1:]
