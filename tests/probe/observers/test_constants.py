"""Calls that give the same in every step are told by their lines, and nothing about any call changes."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytest.importorskip("torch")

from perfdoctor.wire.step_rows import DISTURBED
from tests.support.watched import updates, watched

pytestmark = pytest.mark.process

LOOP = """
    import torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Linear(8, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    table = torch.rand(40, 8)
    kept = [torch.randn(40, 8) for _ in range(4)]
    buffer = torch.zeros(40, 8)
    average = torch.zeros(8, 8)
    for step in range(600):
        {line}
        loss = net(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""


def told(tmp_path, line: str, **environment: str) -> set[int]:
    """The lines that were told of, the same in each look; the loop's first one is 13."""
    records = watched(tmp_path, LOOP.format(line=line), **environment)
    own = records.ranks[0]
    looks = own.of("constants_look")
    assert len(looks) >= 3
    assert looks[0]["constants"] == 0
    seen = [
        {event["at"]["line"] for event in own.of("constants_line") if event["look"] == look["look"]}
        for look in looks[1:]
    ]
    assert all(lines == seen[0] for lines in seen)
    return seen[0]


@pytest.mark.parametrize(
    "line",
    [
        "x = table / table.sum(1, keepdim=True)",
        "x = torch.sin(torch.arange(320.0)).view(40, 8)",
        "x = torch.tensor([[0.5] * 8] * 40)",
        "x = torch.zeros(40, 8); x[3] = 1.0; x = x * 2",
        "x = table.masked_fill(torch.ones(40, 8).triu(1).bool(), 0.0)",
    ],
)
def test_what_comes_from_unchanged_tensors_and_numbers_is_constant(tmp_path, line):
    assert told(tmp_path, line) == {13}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("x = table * step", id="a-number-of-the-step"),
        pytest.param("x = torch.arange(8.0 * (step + 1)).view(-1, 8)", id="a-size-of-the-step"),
        pytest.param("x = torch.randn(40, 8) * 2", id="random"),
        pytest.param("x = nn.functional.dropout(table, 0.5) * 2", id="dropout"),
        pytest.param("x = torch.empty(40, 8).uniform_() * 2", id="filled-at-random"),
        pytest.param("x = kept[step % 4] * 2", id="batches-that-come-again"),
        pytest.param("buffer.add_(1.0); x = buffer * 2", id="changed-in-place"),
        pytest.param("average.lerp_(net.weight.detach(), 0.1); x = average * 2", id="average-of-weights"),
        pytest.param("average.data.copy_(net.weight.data); x = average * 2", id="copied-behind-the-version"),
        pytest.param("buffer.numpy()[:] += 1; x = buffer * 2", id="changed-by-numpy"),
        pytest.param("x = torch.zeros(40, 8); x += torch.randn(40, 8)", id="written-over"),
        pytest.param("x = torch.zeros(40, 8); x[:, 0].copy_(torch.randn(40))", id="written-over-by-a-view"),
        pytest.param("x = table.clone(); x.requires_grad_()", id="a-new-leaf-for-each-step"),
    ],
)
def test_what_changes_from_step_to_step_is_not(tmp_path, line):
    assert told(tmp_path, line) == set()


def test_both_steps_of_a_pair_and_the_next_are_left_out_of_what_is_timed(tmp_path):
    records = watched(tmp_path, LOOP.format(line="x = table * 2"))
    rows, looks = updates(records), records.ranks[0].of("constants_look")
    assert np.count_nonzero(rows["flags"] & DISTURBED) == 3 * len(looks)


def test_where_nothing_is_constant_three_pairs_are_enough(tmp_path):
    script = LOOP.format(line="x = torch.randn(40, 8)")
    looks = watched(tmp_path, script).ranks[0].of("constants_look")
    assert [look["constants"] for look in looks] == [0, 0, 0]


def test_backward_and_update_are_not_looked_at(tmp_path):
    deep = "net = nn.Sequential(*[nn.Linear(8, 8) for _ in range(20)])"
    script = LOOP.replace("net = nn.Linear(8, 8)", deep).replace(
        "SGD(net.parameters(), lr=0.01)", "Adam(net.parameters())"
    )
    looks = watched(tmp_path, script.format(line="x = table * 2")).ranks[0].of("constants_look")
    assert looks
    assert all(look["calls"] < 400 for look in looks)  # Adam makes ten and more for each of 40 tensors


NOT_LOOKED_AT = [
    pytest.param("torch.set_default_device('cpu')", id="a-mode-of-the-scripts"),
    pytest.param("net = torch.compile(net, backend='eager')", id="compiled"),
]


@pytest.mark.parametrize("setting", NOT_LOOKED_AT)
def test_where_a_mode_could_be_noticed_there_is_no_look(tmp_path, setting):
    script = LOOP.format(line="x = table * 2").replace("buffer =", f"{setting}\n    buffer =")
    assert watched(tmp_path, script).ranks[0].of("constants_look") == []


UNTOUCHED = """
    import hashlib, traceback, torch
    from torch import nn
    torch.manual_seed(0)
    torch.set_num_threads(1)
    asked = torch.overrides.has_torch_function
    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    opt = torch.optim.AdamW(net.parameters())
    ways, digest = set(), hashlib.sha256()

    class Lengths(torch.utils.data.Dataset):
        def __len__(self):
            return 2
        def __getitem__(self, index):
            return torch._C._len_torch_function_stack()

    for step in range(160):
        x = torch.randn(4, 6, 16) + torch.eye(6, 16)
        net.train()
        loss = net(x).pow(2).mean()
        net.eval()
        with torch.inference_mode():
            output = net(x)
        try:
            x @ torch.ones(3)
        except RuntimeError:
            ways.add(traceback.format_exc())
        if step > 64:  # workers are started in a look, too
            deep = list(torch.utils.data.DataLoader(Lengths(), num_workers=1, batch_size=None)) if step in (67, 131) else []
            ways.add("deep" if any(deep) else "clean")
        with torch.device("cpu"):
            extra = torch.ones(2)
        opt.zero_grad(); loss.backward(); opt.step()
        digest.update(output.numpy().tobytes())
        digest.update(b"".join(p.detach().numpy().tobytes() for p in net.parameters()))
    assert torch.overrides.has_torch_function is asked
    assert torch._C._len_torch_function_stack() == 0
    print(digest.hexdigest(), sorted(ways))
"""


def test_results_and_tracebacks_are_those_of_a_bare_run_to_the_last_bit(tmp_path, capfd):
    looks = watched(tmp_path, UNTOUCHED).ranks[0].of("constants_look")
    assert looks
    ours = capfd.readouterr().out
    (tmp_path / "script.py").write_text(textwrap.dedent(UNTOUCHED))
    bare = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ours == bare.stdout
