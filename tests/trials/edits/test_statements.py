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


def test_a_function_that_only_evaluates_is_decorated(tmp_path: Path) -> None:
    text = "class Runner:\n    @timed\n    def check(self, model):\n        return model(1)  # here\n"
    assert enclosed(tmp_path, text) == text.replace("    @timed", "    @torch.no_grad()\n    @timed")


def test_of_one_that_trains_too_the_outermost_loop_that_does_not(tmp_path: Path) -> None:
    text = (
        "def main():\n  for epoch in range(3):\n    for x in train:\n      model(x).backward()\n"
        "    for part in parts:\n      for x in part:\n\n        y = model(\n            x)  # here\n    print(y)\n"
    )
    inside = "    for part in parts:\n      for x in part:\n\n        y = model(\n            x)  # here\n"
    deeper = "".join(f"  {line}" if line.strip() else line for line in inside.splitlines(keepends=True))
    assert enclosed(tmp_path, text) == text.replace(inside, f"    with torch.no_grad():\n{deeper}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("for x in data:\n    y = model(x)  # here\n    loss(y).backward()\n", "lies in code that trains"),
        ("y = model(x)  # here\n", "lies in code that trains"),
        ("for x in data:\n    y = model(x)  # here\n    s = '''\n'''\n", "texts of several lines"),
    ],
)
def test_what_neither_holds_is_left_to_a_person(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ByHand, match=why):
        enclosed(tmp_path, text)
