"""A script that begins as most do, and the changes that a patch makes at its marked line."""

from __future__ import annotations

import textwrap
from pathlib import Path

from perfdoctor.trials.edits.autocast import under
from perfdoctor.trials.edits.script_text import ScriptText

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
