"""Steps that are looked at call by call are few and marked, and nothing about any call changes."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe import patch
from perfdoctor.probe.looks.calls import CallLooks, CallViewer, GuardedViewer
from perfdoctor.probe.looks.seen_calls import SeenCall, costliest_lines, costliest_names, seconds_of
from perfdoctor.probe.stand_ins import StandIns, stands_in
from perfdoctor.probe.user_frames import user_frames
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
    for step in range(600):
        {line}
        loss = net(x).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
"""


def test_both_steps_of_a_pair_and_the_next_are_left_out_of_what_is_timed(tmp_path):
    records = watched(tmp_path, LOOP.format(line="x = table * 2"))
    rows, looks = updates(records), records.ranks[0].of("constants_look")
    between = records.ranks[0].of("loop_calls")[-1]["steps"]  # looked at from the update to the forward
    of_pairs = np.count_nonzero(rows["flags"] & DISTURBED) - between
    assert of_pairs <= 3 * len(looks) <= of_pairs + between  # one of those may be the next of a pair


def test_where_nothing_is_constant_three_pairs_are_enough(tmp_path):
    script = LOOP.format(line="x = torch.randn(40, 8)")
    looks = watched(tmp_path, script).ranks[0].of("constants_look")
    assert [look["constants"] for look in looks] == [0, 0, 0]


def test_three_hundred_steps_are_enough_for_three_pairs(tmp_path):
    script = LOOP.format(line="x = table * 2").replace("range(600)", "range(300)")
    looks = watched(tmp_path, script).ranks[0].of("constants_look")
    assert len(looks) == 3
    assert looks[-1]["constants"] > 0


class Asked:
    """The looks of a run whose backwards are told by hand, without any steps."""

    def __init__(self):
        self.recorder = SimpleNamespace(since=5 * 10**9)
        self.schedule = SimpleNamespace(backwards=0)
        moments = SimpleNamespace(update=[])
        steps = SimpleNamespace(torch=torch, schedule=self.schedule, moments=moments)
        self.looks = CallLooks(steps, None)
        self.looks.viewers.append(CallViewer())

    def pairs(self, step_s, steps, cut_short=()):
        """The backwards that asked for a pair, which is had at once, but for those that are cut short."""
        asked = []
        for backwards in range(1, steps + 1):
            self.schedule.backwards = backwards
            self.recorder.since += int(step_s * 1e9)
            self.looks._ask(self.recorder, None)
            if self.looks.asked:
                asked.append(backwards)
                if backwards not in cut_short:
                    self.looks._tell(step_s)
                self.looks._finish()
        return asked


@pytest.mark.parametrize(
    ("step_s", "pairs"),
    [
        pytest.param(0.001, [64, 128], id="fast"),
        pytest.param(0.0046, [64, 128], id="just-fast-enough"),
        pytest.param(0.01, [31, 61, 121], id="slow"),
        pytest.param(1.0, [16, 32, 64, 128], id="slower"),
    ],
)
def test_where_steps_take_long_fewer_of_them_pass_between_pairs(step_s, pairs):
    assert Asked().pairs(step_s, 200) == pairs


def test_after_three_pairs_looking_costs_no_more_than_its_share_of_the_time():
    dear = Asked()
    dear.looks.own_ns = 40_000_000  # each pair
    assert dear.pairs(1.0, 200) == [16, 32, 64, 128]
    assert Asked().pairs(0.1, 600) == [16, 32, 64, 128, 256, 512]
    dear = Asked()
    dear.looks.own_ns = 100_000_000
    assert dear.pairs(0.1, 700) == [16, 32, 64, 601]


def test_of_a_step_with_very_many_calls_only_the_begin_is_shown_and_timed(tmp_path):
    script = LOOP.format(line="x = table * 2\n        for _ in range(5_000): x + 1").replace(
        "range(600)", "range(90)"
    )
    _, look, *_ = watched(tmp_path, script).ranks[0].of("constants_look")
    assert 0 < look["constants"] < 5_000
    assert look["seconds"] <= look["step_s"]  # both of what was shown


def test_a_pair_that_is_cut_short_comes_again():
    assert Asked().pairs(0.001, 200, cut_short=[64, 65]) == [64, 65, 66, 132]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("setting", NOT_LOOKED_AT)
def test_where_a_mode_could_be_noticed_there_is_no_look(tmp_path, setting):
    script = LOOP.format(line="x = table * 2").replace("table =", f"{setting}\n    table =")
    assert watched(tmp_path, script).ranks[0].of("constants_look") == []


UNTOUCHED = """
    import hashlib, sys, traceback, torch
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
            # older interpreters put a frame of ours back when re-raising
            ways.add(traceback.format_exc() if sys.version_info >= (3, 11) else "raised")
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


@pytest.mark.slow
@pytest.mark.shows("randomness")
def test_a_warning_names_the_line_of_the_script(tmp_path, capfd):
    line = "x = nn.functional.softmax(table * 2)"
    watched(tmp_path, LOOP.format(line=line))
    warned = [text for text in capfd.readouterr().err.splitlines() if "Implicit dimension" in text]
    assert len(warned) == 1
    assert "script.py" in warned[0]


WARNING = """
    import warnings
    import torch
    from torch import nn
    from torch.nn import functional as F
    {filtered}
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Linear(8, 8)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    soft = nn.Softmax()

    def thinned(x):
        return F.dropout2d(x)

    for step in range(300):
        x = torch.randn(4, 8)
        loss = F.mse_loss(net(x), torch.ones(8))
        thinned(x); soft(x); F.softmax(x)
        loss.grad  # C++ warns
        torch.tensor(x)
        opt.zero_grad(); loss.backward(); opt.step()
"""


@pytest.mark.slow
@pytest.mark.shows("streams")
@pytest.mark.parametrize(
    "filtered",
    [
        pytest.param("", id="shown-once"),
        pytest.param("warnings.simplefilter('always')", id="shown-each-time"),
        pytest.param("warnings.filterwarnings('ignore', module='__main__')", id="of-a-module"),
    ],
)
def test_warnings_are_shown_as_in_a_bare_run(tmp_path, capfd, filtered):
    assert watched(tmp_path, WARNING.format(filtered=filtered)).ranks[0].of("constants_look")
    ours = capfd.readouterr().err
    bare = subprocess.run(
        [sys.executable, tmp_path / "script.py"], cwd=tmp_path, check=True, stderr=subprocess.PIPE, text=True
    ).stderr
    # temporary folders, of which some versions of torch warn that they are left, have names drawn by chance
    drawn = re.compile(rf"{re.escape(str(tmp_path))}/|\btmp[a-z0-9_]{{8}}\b")
    assert drawn.sub("", ours) == drawn.sub("", bare)


def test_a_frame_that_stands_in_for_the_scripts_shows_no_names_of_its_own():
    def handler():
        return stand_in.of_caller(sys._getframe())

    stand_in = StandIns(torch.overrides)
    call, line = handler(), sys._getframe().f_lineno
    seen = call(lambda: sys._getframe(1), (), {})
    assert (seen.f_code.co_filename, seen.f_lineno, seen.f_code.co_name) == (
        __file__,
        line,
        sys._getframe().f_code.co_name,
    )
    assert stands_in(seen.f_code)
    assert seen.f_code not in [frame.f_code for frame in call(user_frames, (), {})]


def test_results_and_tracebacks_are_those_of_a_bare_run_to_the_last_bit(tmp_path, capfd):
    looks = watched(tmp_path, UNTOUCHED).ranks[0].of("constants_look")
    assert looks
    ours = capfd.readouterr().out
    (tmp_path / "script.py").write_text(textwrap.dedent(UNTOUCHED))
    bare = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert ours == bare.stdout


class Failing(CallViewer):
    """A viewer with a defect of ours."""

    def begin(self):
        raise ZeroDivisionError


def test_an_error_of_a_viewer_ends_its_own_part_only(monkeypatch):
    monkeypatch.setattr(patch, "turned_off", {})
    failing, other = GuardedViewer("failing", Failing()), GuardedViewer("other", CallViewer())
    assert failing.begin() is None
    assert set(patch.broken()) == {"failing"}
    assert failing.tell(1, 0.1) is None
    assert other.tell(1, 0.1) == 0.0


def called(name, ns, line):
    call = SeenCall(name, ns)
    call.line = {"file": "train.py", "line": line}
    return call


def test_lines_come_costliest_first_with_their_costliest_functions():
    calls = [called("sum", 40, 3), called("eye", 100, 5), called("sum", 30, 3), called("sqrt", 60, 3)]
    lines = costliest_lines(calls)
    told = [(same, costliest_names(same)) for same in lines]
    assert [(same[0].line["line"], len(same), names) for same, names in told] == [
        (3, 3, ["sum", "sqrt"]),
        (5, 1, ["eye"]),
    ]
    assert [seconds_of(same) for same in lines] == pytest.approx([130e-9, 100e-9])


def test_no_mode_stays_where_updates_are_made_inside_the_backward_pass(tmp_path):
    update = "lambda p: opts[p].step() or opts[p].zero_grad()"
    script = LOOP.format(line="x = table * 2; assert torch._C._len_torch_function_stack() == 0 or step < 595")
    made = "opts = {p: torch.optim.SGD([p], lr=0.01) for p in net.parameters()}"
    hooks = f"[p.register_post_accumulate_grad_hook({update}) for p in net.parameters()]"
    script = script.replace("opt = torch.optim.SGD(net.parameters(), lr=0.01)", f"{made}; {hooks}")
    script = script.replace("opt.zero_grad(); loss.backward(); opt.step()", "loss.backward()")
    assert updates(watched(tmp_path, script)).size >= 500


# The 64th backward asks for the first pair; three updates later, with the 67th, its mode is there.
AFTER = LOOP.format(line="x = table * 2").replace("range(600)", "range(67)")
ENDED = "\n    assert torch._C._len_torch_function_stack() == 0\n"


@pytest.mark.parametrize(
    "after",
    [
        pytest.param("net.eval(); net(x)", id="evaluation"),
        pytest.param("assert 'warn' not in str(torch.jit.trace(net.eval(), x))", id="trace"),
    ],
)
def test_a_look_ends_where_the_script_evaluates_or_traces(tmp_path, after):
    begun = "\n    assert torch._C._len_torch_function_stack() == 1\n"
    watched(tmp_path, AFTER + begun + f"    {after}" + ENDED)


def test_what_looks_cannot_keep_a_model_that_the_script_drops(tmp_path):
    script = AFTER.replace("range(67)", "range(64)")
    gone = "\n    import gc, weakref; alive = weakref.ref(net); del net, opt, loss; gc.collect(); assert not alive()\n"
    watched(tmp_path, script + gone)


def test_torchscript_compiles_what_asks_for_torch_functions_within_a_look(tmp_path):
    script = (
        AFTER + "\n    torch.jit.script(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval())\n"
    )
    watched(tmp_path, script)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["thread", "backward"])
def test_a_mode_that_cannot_be_taken_away_where_the_script_compiles_goes_at_the_next_update(tmp_path, place):
    compiles = {
        "thread": "t = threading.Thread(target=torch.compile, args=(nn.Linear(2, 2),)); t.start(); t.join()",
        "backward": "loss.register_hook(lambda gradient: [torch.compile(nn.Linear(2, 2))] and None)",
    }
    script = LOOP.format(line="x = table * 2").replace("range(600)", "range(72)")
    script = script.replace("opt.zero_grad();", "step == 67 and compiles(loss)\n        opt.zero_grad();")
    script = script.replace(
        "import torch\n", f"import threading, torch\n    def compiles(loss): {compiles[place]}\n", 1
    )
    watched(tmp_path, script + ENDED)


def test_a_dispatch_mode_of_the_scripts_sees_no_operator_of_ours(tmp_path):
    script = LOOP.format(line="x = table * 2").replace("range(600)", "range(140)")
    mode = """
    from torch.utils._python_dispatch import TorchDispatchMode
    class Ops(TorchDispatchMode):
        seen = 0
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            Ops.seen += 1
            return function(*args, **(kwargs or {}))
    """
    script = script.replace("table = ", mode + "table = ").replace(
        "loss = net(x).pow(2).mean()",
        """
        before = Ops.seen
        with Ops():
            loss = net(x).pow(2).mean()
        made = Ops.seen - before
        assert step == 0 or made == usual, (step, made, usual)
        usual = made""",
    )
    watched(tmp_path, script)
