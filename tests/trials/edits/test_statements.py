from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.trials.edits.script_text import ByHand, ScriptText
from perfdoctor.trials.edits.statements import around, behind_imports
from perfdoctor.tweaks import Statement

ADDED = "torch.set_num_threads(1)"
THREADS = Statement("torch.set_num_threads({})", rivals=("set_default_threads",))


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "train.py"
    file.write_bytes(text.encode())
    script = ScriptText(file)
    return script.edited(behind_imports(script, THREADS, 1))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n\nx = 1\n", f"import torch\n\n{ADDED}\n\nx = 1\n"),
        ('"""Says."""\nimport torch\nfrom torch import (\n    nn,\n)\nx = 1\n',
         f'"""Says."""\nimport torch\nfrom torch import (\n    nn,\n)\n\n{ADDED}\nx = 1\n'),
        ("import torch.nn as nn\nimport torch.utils.data\n", f"import torch.nn as nn\nimport torch.utils.data\n\n{ADDED}\n"),
        ("import torch\ntry:\n    import apex\nexcept ImportError:\n    apex = None\nimport os\n\nx = 1\nimport sys\n",
         f"import torch\ntry:\n    import apex\nexcept ImportError:\n    apex = None\nimport os\n\n{ADDED}\n\nx = 1\nimport sys\n"),
        ("import torch", f"import torch\n\n{ADDED}"),
        ("import os\nos.environ['A'] = '0'\nimport torch\nfrom torch import nn\nx = 1\n",
         f"import os\nos.environ['A'] = '0'\nimport torch\nfrom torch import nn\n\n{ADDED}\nx = 1\n"),
        ("import torch\n\ndef late():\n    import torch\n",
         f"import torch\n\n{ADDED}\n\ndef late():\n    import torch\n"),
    ],
)  # fmt: skip
def test_a_statement_stands_behind_the_imports(before: str, after: str, tmp_path: Path) -> None:
    assert written(tmp_path, before) == after


@pytest.mark.parametrize(
    "text", ["import torch\ntorch = wrap(torch)\n", "import torch as t\n", "from torch import nn\n", ""]
)
def test_without_torch_by_its_name_it_is_left_to_a_person(text: str, tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="does not begin with `import torch`"):
        written(tmp_path, text)


def enclosed(tmp_path: Path, text: str) -> str:
    """With what is done at the line marked by `# here` under no_grad."""
    file = tmp_path / "train.py"
    file.write_text(text)
    script = ScriptText(file)
    line = next(number for number, said in enumerate(text.splitlines(), 1) if "# here" in said)
    return script.edited(around(script, line, "torch.no_grad()"))


HEAD = "import torch\n\n"
CHECK = "    def check(self, model):\n        model.eval()\n        y = model(  # here\n            1)\n\n        return y\n"
INSIDE = "        with torch.no_grad():\n            y = model(  # here\n                1)\n"


def test_the_statement_goes_below_a_with(tmp_path: Path) -> None:
    text = f"{HEAD}class Runner:\n{CHECK}"
    assert enclosed(tmp_path, text) == text.replace("        y = model(  # here\n            1)\n", INSIDE)


def test_and_nothing_that_stands_beside_it(tmp_path: Path) -> None:
    text = (
        f"{HEAD}for x in data:\n\trun_epoch(model, optimizer)\n\tmodel.train(False)\n\ty = model(x)  # here\n"
    )
    after = "\twith torch.no_grad():\n\t\ty = model(x)  # here\n"
    assert enclosed(tmp_path, text) == text.replace("\ty = model(x)  # here\n", after)


@pytest.mark.parametrize(
    "text",
    [
        "if late:\n    model.eval()\n    for x in data:\n        y = model(x)  # here\n    model.train()\n",
        "for _ in epochs:\n    model.train()\n    fit(model)\n    model.eval()\n    y = model(x)  # here\n",
        "teacher = Teacher().to(device).eval()\nmodel.train()\ny = teacher(x)  # here\n",
        "self.model.to(device).eval()\ntotal += loss(self.model(x), y)  # here\n",
    ],
)
def test_where_it_is_in_eval_mode_whenever_it_runs(text: str, tmp_path: Path) -> None:
    assert "with torch.no_grad():\n" in enclosed(tmp_path, HEAD + text)


EACH = "    for x in data:\n        y = model(x)  # here\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "def loss_of(model, x, y):\n    return F.mse_loss(model(x), y)  # here\n",
            "put into eval mode elsewhere",
        ),
        ("y = model(x)  # here\nmodel.eval()\n", "put into eval mode elsewhere"),
        ("model.eval(); y = model(x)  # here\n", "put into eval mode elsewhere"),
        (f"def epoch(model, optimizer=None):\n    if optimizer:\n        model.train()\n    else:\n        model.eval()\n{EACH}", "or not always"),
        (f"def epoch(model, train):\n    model.train() if train else model.eval()\n{EACH}", "or not always"),
        (f"def epoch(model, train):\n    train or model.eval()\n{EACH}", "or not always"),
        (f"def epoch(model, train):\n    model.eval()\n    model.train(train)\n{EACH}", "or not always"),
        ("model.eval()\nfor x in data:\n    y = model(x)  # here\n    model.train()\n", "or not always"),
        ("teacher.eval()\nfor x in data:\n    y = model(x)  # here\n", "does not name what is put into eval mode"),
        ("teacher.eval()\ny = loss(student(x), teacher(x).detach())  # here\n", "calls student as well"),
        ("table = table.eval('a + b')\ny = model(x)  # here\n", "put into eval mode elsewhere"),
        ("model.eval()\nz = 1; y = model(x)  # here\n", "is no statement"),
        ("model.eval()\nif model(x):  # here\n    pass\n", "is no statement"),
        ("model.eval()\nf = lambda x: model(x)  # here\n", "is no statement"),
        (
            "def run():\n    model.eval()\n    for x in data:\n        yield model(x)  # here\n",
            "is no statement",
        ),
        ("model.eval()\nif x: y = model(x)  # here\n", "cannot be indented"),
        ("model.eval()\ny = model(x, '''  # here\n''')\n", "cannot be indented"),
    ],
)  # fmt: skip
def test_what_may_train_or_cannot_be_indented_is_left_to_a_person(
    text: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ByHand, match=why):
        enclosed(tmp_path, HEAD + text)


def test_a_function_that_imports_torch_itself_may_do_so_later(tmp_path: Path) -> None:
    text = "def check(model):\n    model.eval()\n    y = model(1)  # here\n    import torch\n"
    with pytest.raises(ByHand, match="does not begin with `import torch`"):
        enclosed(tmp_path, HEAD + text)


def test_a_script_that_does_not_know_torch(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="does not begin with `import torch`"):
        enclosed(tmp_path, "from torch import nn\nmodel.eval()\ny = model(x)  # here\n")


@pytest.mark.parametrize(
    "own", ["torch.set_num_threads(args.threads)", "from_torch.set_default_threads = 4", "set_num_threads(8)"]
)
def test_what_the_script_sets_as_well_would_win(own: str, tmp_path: Path) -> None:
    with pytest.raises(ByHand, match=r"line 3 of train\.py sets it as well"):
        written(tmp_path, f"import torch\n\n{own}\n")


def test_an_import_that_shares_its_line(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="goes on behind an import"):
        written(tmp_path, "import torch; x = 1\n")
