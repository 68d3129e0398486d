from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.trials.edits.script_text import ByHand, ScriptText
from perfdoctor.trials.edits.statements import around, behind_imports

ADDED = "torch.set_num_threads(1)"


def written(tmp_path: Path, text: str) -> str:
    file = tmp_path / "train.py"
    file.write_bytes(text.encode())
    script = ScriptText(file)
    return script.edited(behind_imports(script, ADDED))


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
    ],
)  # fmt: skip
def test_a_statement_stands_behind_the_imports(before: str, after: str, tmp_path: Path) -> None:
    assert written(tmp_path, before) == after


@pytest.mark.parametrize(
    "text", ["x = 1\nimport torch\n", "import torch as t\n", "from torch import nn\n", ""]
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
CHECK = "    def check(self, model):\n        model.eval()\n        return model(1)  # here\n"


def test_a_function_that_only_evaluates_is_decorated(tmp_path: Path) -> None:
    text = f"{HEAD}class Runner:\n{CHECK}"
    assert enclosed(tmp_path, text) == text.replace(CHECK, f"    @torch.no_grad()\n{CHECK}")


def test_of_a_decorated_one_the_statement_goes_below_a_with(tmp_path: Path) -> None:
    text = f"{HEAD}class Runner:\n    @classmethod\n{CHECK}"
    after = "        with torch.no_grad():\n            return model(1)  # here\n"
    assert enclosed(tmp_path, text) == text.replace("        return model(1)  # here\n", after)


INSIDE = "      for x in part:\n\n        y = model(\n            x)  # here\n"


@pytest.mark.parametrize(
    "trains", ["model(1).backward()", "train(model)", "runner.fit()", "train_step(model)"]
)
def test_of_one_that_trains_too_the_innermost_loop(trains: str, tmp_path: Path) -> None:
    text = (
        f"{HEAD}def main():\n  for epoch in range(3):\n    model.train()\n    {trains}\n    model.eval()\n"
        f"    for part in parts:\n{INSIDE}    print(y)\n"
    )
    deeper = "".join(f"  {line}" if line.strip() else line for line in INSIDE.splitlines(keepends=True))
    assert enclosed(tmp_path, text) == text.replace(INSIDE, f"      with torch.no_grad():\n{deeper}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "for x in data:\n    model.eval()\n    y = model(x)  # here\n    loss(y).backward()\n",
            "code that trains",
        ),
        (
            "def loss_of(model, x, y):\n    return F.mse_loss(model(x), y)  # here\n",
            "put into eval mode elsewhere",
        ),
        ("y = model(x)  # here\nmodel.eval()\n", "put into eval mode elsewhere"),
        ("model.eval()\nfor x in data:\n    y = model(x)  # here\n    s = '''\n'''\n", "cannot be indented"),
        ("model.eval(); y = model(x)  # here\n", "put into eval mode elsewhere"),
        ("model.eval()\nz = 1; y = model(x)  # here\n", "cannot be indented"),
    ],
)
def test_what_may_train_or_cannot_be_indented_is_left_to_a_person(
    text: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(ByHand, match=why):
        enclosed(tmp_path, HEAD + text)


def test_a_script_that_does_not_know_torch(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="does not begin with `import torch`"):
        enclosed(tmp_path, "from torch import nn\nmodel.eval()\ny = model(x)  # here\n")


@pytest.mark.parametrize(
    ("text", "set_by"),
    [
        ("torch.set_num_threads(1)", "torch.set_num_threads(args.threads)"),
        ("torch.backends.cudnn.benchmark = True", "cudnn.benchmark = False"),
    ],
)
def test_what_the_script_sets_as_well_would_win(text: str, set_by: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"import torch\n\n{set_by}\n")
    with pytest.raises(ByHand, match=r"line 3 of train\.py sets it as well"):
        behind_imports(ScriptText(file), text)


def test_an_import_that_shares_its_line(tmp_path: Path) -> None:
    with pytest.raises(ByHand, match="goes on behind an import"):
        written(tmp_path, "import torch; x = 1\n")
