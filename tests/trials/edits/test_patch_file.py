from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.model.trial import Execution, Place, Setting, Trial, Variant, VariantResult
from perfdoctor.probe.trial.tweak import BITWISE, ROUNDING
from perfdoctor.trials.edits.patch_file import TOGETHER, LeftToHand, newer_files, of_variant
from perfdoctor.trials.settings import tweak_catalogue
from tests.support import trial_results

SCRIPT = """\
import torch
from torch.utils.data import DataLoader

data = list(range(100))


def main():
    loader = DataLoader(data, batch_size=4)
    checked = DataLoader(data, batch_size=4)
    print(loader.num_workers, checked.num_workers, torch.get_num_threads())


main()
"""
WORKERS = Setting("workers", ("--workers", "2"), {"value": 2}, BITWISE)
ALIVE = Setting("persistent-workers", ("--persistent-workers",), {}, BITWISE)
THREADS = Setting("threads", ("--threads", "1"), {"value": 1}, ROUNDING)
AMP = Setting("amp", ("--amp",), {}, ROUNDING)


def place(tweak: str, what: str, file: Path | None, line: int, now: object) -> Place:
    return Place(tweak, what, None if file is None else Location(str(file), line, "main"), None, now)


def faster(*settings: Setting, applied: tuple[Place, ...]) -> VariantResult:
    told: tuple[Execution, ...] = (trial_results.execution(applied=applied),)
    return replace(trial_results.FASTER, variant=Variant(settings), executions=told)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    return file


def a_trial(folder: Path, result: VariantResult, **fields: object) -> Trial:
    return trial_results.trial(result, cwd=str(folder), command=("python", "train.py"), **fields)


def test_a_diff_holds_what_all_tweaks_changed(script: Path, tmp_path: Path) -> None:
    result = faster(
        WORKERS,
        ALIVE,
        THREADS,
        applied=(
            place("workers", "DataLoader num_workers", script, 8, 2),
            place("persistent-workers", "DataLoader persistent_workers", script, 8, True),
            place("workers", "DataLoader num_workers", script, 9, 2),
            place("threads", "torch.set_num_threads", None, 0, 1),
        ),
    )
    found = of_variant(a_trial(tmp_path, result), result)
    assert found.by_hand == ()
    assert found.files == (str(script),)
    assert found.diff == (
        "--- a/train.py\n+++ b/train.py\n@@ -1,12 +1,14 @@\n import torch\n from torch.utils.data import DataLoader\n"
        "+\n+torch.set_num_threads(1)\n \n data = list(range(100))\n \n \n def main():\n"
        "-    loader = DataLoader(data, batch_size=4)\n-    checked = DataLoader(data, batch_size=4)\n"
        "+    loader = DataLoader(data, batch_size=4, num_workers=2, persistent_workers=True)\n"
        "+    checked = DataLoader(data, batch_size=4, num_workers=2)\n"
        "     print(loader.num_workers, checked.num_workers, torch.get_num_threads())\n \n \n"
    )


@pytest.mark.process
@pytest.mark.parametrize("tool", [("git", "apply"), ("patch", "-p1")], ids=" ".join)
@pytest.mark.parametrize("ending", ["\n", ""], ids=["last-line-ends", "last-line-does-not"])
def test_git_and_patch_apply_it(tool: tuple[str, ...], ending: str, tmp_path: Path) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    folder = tmp_path / "below"  # of a repository
    folder.mkdir()
    if tool[0] == "git":
        subprocess.run(("git", "init", "--quiet", str(tmp_path)), check=True)
    file = folder / "train.py"
    file.write_text("import torch\nloader = torch.utils.data.DataLoader([1])" + ending)
    result = faster(WORKERS, applied=(place("workers", "DataLoader num_workers", file, 2, 2),))
    found = of_variant(a_trial(folder, result), result)
    subprocess.run(tool, input=found.diff.encode(), cwd=folder, check=True)
    assert (
        file.read_text() == "import torch\nloader = torch.utils.data.DataLoader([1], num_workers=2)" + ending
    )


def test_a_file_beside_the_folder_of_the_command(tmp_path: Path) -> None:
    for name in ("jobs", "package"):
        (tmp_path / name).mkdir()
    file = tmp_path / "package" / "loading.py"
    file.write_text("loader = DataLoader(data)\n")
    result = faster(WORKERS, applied=(place("workers", "DataLoader num_workers", file, 1, 2),))
    found = of_variant(a_trial(tmp_path / "jobs", result), result)
    assert found.folder == str(tmp_path)
    assert found.diff.startswith("--- a/package/loading.py\n")


def test_what_a_diff_cannot_hold_is_left_to_a_person_and_the_rest_goes_on(
    script: Path, tmp_path: Path
) -> None:
    result = faster(
        WORKERS,
        AMP,
        applied=(
            place("workers", "DataLoader num_workers", script, 8, 2),
            place("workers", "DataLoader num_workers", script, 13, 2),
            place("workers", "DataLoader num_workers", None, 0, 2),
            place("amp", "Net", script, 10, "bfloat16"),
        ),
    )
    found = of_variant(a_trial(tmp_path, result), result)
    assert "num_workers=2" in found.diff
    assert found.by_hand == (
        LeftToHand(
            "workers", "train.py:13 DataLoader num_workers", "line 13 does not call DataLoader itself"
        ),
        LeftToHand("workers", "DataLoader num_workers", "no line of the script asked for it"),
        LeftToHand("amp", "train.py:10 Net", "see: perfdoctor try --list --amp"),
    )


def test_what_lines_of_the_script_set_needs_no_statement(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import torch\n\ntorch.set_num_threads(8)\n")
    both = (
        place("threads", "torch.set_num_threads", None, 0, 1),
        place("threads", "torch.set_num_threads", file, 3, 1),
    )
    result = faster(THREADS, applied=both)
    found = of_variant(a_trial(tmp_path, result), result)
    assert [line for line in found.diff.splitlines() if line.startswith("+") and "+++" not in line] == [
        "+torch.set_num_threads(1)"
    ]


def test_a_command_that_names_no_script_has_no_place_for_a_statement(tmp_path: Path) -> None:
    result = faster(THREADS, applied=(place("threads", "torch.set_num_threads", None, 0, 1),))
    trial = trial_results.trial(result, cwd=str(tmp_path), command=("python", "-m", "package.train"))
    found = of_variant(trial, result)
    assert found.diff == ""
    assert [left.because for left in found.by_hand] == ["the command names no script"]


def test_files_that_changed_since_the_trial_are_known(script: Path, tmp_path: Path) -> None:
    result = faster(WORKERS, applied=(place("workers", "DataLoader num_workers", script, 8, 2),))
    trial = a_trial(tmp_path, result, path=str(tmp_path / "trial"))
    found = of_variant(trial, result)
    assert newer_files(trial, found) == []  # the trial's own file is gone
    (tmp_path / "trial").mkdir()
    kept = tmp_path / "trial" / "trial.json"
    kept.write_text("{}")
    os.utime(kept, (1_000_000_000, 1_000_000_000))
    assert newer_files(trial, found) == ["train.py"]
    os.utime(script, (900_000_000, 900_000_000))
    assert newer_files(trial, found) == []


def test_of_a_line_every_change_is_written_or_none(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("a = parser.parse_args()\nx = DataLoader(d, **load())\ny = DataLoader(d)\n")
    result = faster(
        WORKERS,
        ALIVE,
        applied=tuple(
            place(setting.tweak, "DataLoader", file, line, now)
            for setting, now in ((WORKERS, 2), (ALIVE, True))
            for line in (2, 3)
        ),
    )
    found = of_variant(a_trial(tmp_path, result), result)
    assert "+y = DataLoader(d, num_workers=2, persistent_workers=True)" in found.diff
    assert "-x" not in found.diff


def test_what_another_tweak_left_alone_or_cannot_write_hinders_none(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "import torch\nfrom nets import Net\n\nx = DataLoader(d, pin_memory=True)\nloss = criterion(Net()(x), y)\n"
        "model = Net()\nif late:\n    model = Net(2)\nout = model(x)\n"
    )
    compiled = Setting("compile", ("--compile",), {}, ROUNDING)
    done = (
        place("workers", "DataLoader num_workers", file, 4, 2),
        place("compile", "Net", file, 9, "compiled (default)"),
        place("amp", "Net", file, 9, "bfloat16 on cpu"),
    )
    left = replace(place("pin-memory", "DataLoader", file, 4, None), because="it is no tensor")
    same = replace(place("workers", "DataLoader", file, 4, None), because="num_workers is already 2")
    executions = (trial_results.execution(applied=done, left_alone=(left, same)),)
    result = replace(faster(WORKERS, compiled, AMP, applied=done), executions=executions)
    found = of_variant(a_trial(tmp_path, result), result)
    assert "+x = DataLoader(d, pin_memory=True, num_workers=2)" in found.diff
    assert "+    out = model(x).float()" in found.diff
    assert [(each.tweak, each.because[:19]) for each in found.by_hand] == [("compile", "no single statement")]


CPU = 'torch.autocast("cpu", dtype=torch.bfloat16)'
LAST = "contiguous(memory_format=torch.channels_last)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss = criterion(model(x.to(device)), y)",
         f"with {CPU}:\n    output = model(x.to(device, non_blocking=True).{LAST})\nloss = criterion(output.float(), y)"),
        ("loss = criterion(\n    model(\n        x.to(device),\n    ), y)",
         f"with {CPU}:\n    output = model(\n            x.to(device, non_blocking=True).{LAST},\n        )\nloss = criterion(\n    output.float(), y)"),
        ("out = model(x.to(device))",
         f"with {CPU}, torch.no_grad():\n    out = model(x.to(device, non_blocking=True).{LAST}).float()"),
        ("out = criterion(model(x.to(device)), y).item()",
         f"with {CPU}, torch.no_grad():\n    output = model(x.to(device, non_blocking=True).{LAST})\nout = criterion(output.float(), y).item()"),
    ],
    ids=["taken-out", "over-lines", "below-one-with", "parted-below-one-with"],
)  # fmt: skip
def test_changes_inside_and_around_a_call_are_all_written(before: str, after: str, tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    start = "import torch\nfrom nets import Net\n\nmodel = Net()\nmodel.eval()\n"
    file.write_text(f"{start}{before}\n")
    line = 6 + before[: before.index("x.to")].count("\n")
    told = [
        place("amp", "Net", file, line, "bfloat16 on cpu"),
        place("channels-last", "argument 1 of Net", file, line, "NHWC"),
        place("non-blocking", "copy to the device non_blocking", file, line, True),
        place("no-grad-eval", "passes in eval mode recording gradients", file, line, False),
    ]
    if "out =" not in before:
        told.pop()
    settings = (Setting(each.tweak, (f"--{each.tweak}",), {}, BITWISE) for each in told)
    result = faster(*settings, applied=tuple(told))
    found = of_variant(a_trial(tmp_path, result), result)
    assert found.by_hand == ()
    added = [said[1:] for said in found.diff.splitlines() if said[:1] in "+ " and said[:3] != "+++"]
    assert "\n".join(added).endswith(f"model.eval()\n{after}")


def test_one_change_that_breaks_the_file_does_not_take_the_others_along(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("x = DataLoader(d, num_workers=0)\nlog(DataLoader(d, num_workers=0))\n")
    told = tuple(
        place("workers", "DataLoader num_workers", file, line, now) for line, now in ((1, 2), (2, 3))
    )
    again = place("workers", "DataLoader num_workers (again)", file, 2, 4)
    result = faster(WORKERS, applied=(*told, again))
    found = of_variant(a_trial(tmp_path, result), result)
    assert "+x = DataLoader(d, num_workers=2)" in found.diff
    assert "+log" not in found.diff
    assert {left.because for left in found.by_hand} == {"two changes meet in one place", TOGETHER}


def test_an_option_that_two_lines_read_is_left_alone_where_one_of_them_is(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "parser.add_argument('--workers', default=0)\nargs = parser.parse_args()\n"
        "x = DataLoader(d, num_workers=args.workers)\ny = DataLoader(d, num_workers=args.workers)\n"
    )
    told = tuple(place("workers", "DataLoader num_workers", file, line, 2) for line in (3, 4))
    result = faster(WORKERS, applied=told)
    assert "default=2" in of_variant(a_trial(tmp_path, result), result).diff
    left = (replace(told[1], now=None, because="each worker would go through all of it"),)
    executions = (trial_results.execution(applied=told, left_alone=left),)
    result = replace(result, executions=executions)
    found = of_variant(a_trial(tmp_path, result), result)
    assert found.diff == ""
    assert len(found.by_hand) == 2


def test_a_line_where_it_became_different_things(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("x = DataLoader(d)\n")
    told = tuple(place("workers", "DataLoader num_workers", file, 1, now) for now in (2, 4))
    result = faster(WORKERS, applied=told)
    found = of_variant(a_trial(tmp_path, result), result)
    assert found.diff == ""
    assert {left.because for left in found.by_hand} == {"it did not become the same each time"}


def test_a_tweak_of_another_version_is_left_to_a_person(script: Path, tmp_path: Path) -> None:
    gone = Setting("gone", ("--gone",), {}, BITWISE)
    result = faster(gone, applied=(place("gone", "something", script, 8, True),))
    assert (
        of_variant(a_trial(tmp_path, result), result).by_hand[0].because
        == "see: perfdoctor try --list --gone"
    )


def test_a_line_that_makes_one_that_was_left_alone_is_left_to_a_person(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text("def make(d):\n    return DataLoader(d)\n")
    done = place("workers", "DataLoader num_workers", file, 2, 2)
    told = (
        trial_results.execution(
            applied=(done,), left_alone=(replace(done, now=None, because="it would be read twice"),)
        ),
    )
    result = replace(trial_results.FASTER, variant=Variant((WORKERS,)), executions=told)
    found = of_variant(a_trial(tmp_path, result), result)
    assert found.diff == ""
    assert found.by_hand[0].because == "it makes one that was left alone, too: it would be read twice"


@pytest.mark.process
@pytest.mark.parametrize("tool", [("git", "apply"), ("patch", "-p1")], ids=" ".join)
def test_names_with_spaces_and_links_are_applied_too(tool: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(tool[0]) is None:
        pytest.skip(f"{tool[0]} is not installed")
    file = tmp_path / "my train.py"
    file.write_text("x = DataLoader(d)\n")
    link = tmp_path / "train.py"
    link.symlink_to(file)
    result = faster(WORKERS, applied=(place("workers", "DataLoader num_workers", link, 1, 2),))
    found = of_variant(a_trial(tmp_path, result), result)
    subprocess.run(tool, input=found.diff.encode(), cwd=tmp_path, check=True)
    assert file.read_text() == "x = DataLoader(d, num_workers=2)\n"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("python -u train.py", True),
        ("torchrun --nproc-per-node 2 train.py", True),
        ("python -m torch.distributed.run train.py", True),
        ("python -m package.train --config train.py", False),
        ("python other.py", False),
    ],
)
def test_the_script_of_a_command(command: str, named: bool, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    result = faster(THREADS, applied=(place("threads", "torch.set_num_threads", None, 0, 1),))
    trial = trial_results.trial(result, cwd=str(tmp_path), command=tuple(command.split()))
    assert ("+torch.set_num_threads(1)" in of_variant(trial, result).diff) is named


# ---------------------------------------------------------------- each tweak, as it is written into a script

# Of a tweak: what it tells that it changed, to what, the line before, and the line that takes its place.
WRITTEN = [
    ("workers", "DataLoader num_workers", 4, "DataLoader(data, 8)", "DataLoader(data, 8, num_workers=4)"),
    ("persistent-workers", "DataLoader persistent_workers", True, "DataLoader(data, num_workers=4)",
     "DataLoader(data, num_workers=4, persistent_workers=True)"),
    ("pin-memory", "DataLoader pin_memory", True, "DataLoader(data)", "DataLoader(data, pin_memory=True)"),
    ("prefetch", "DataLoader prefetch_factor", 8, "DataLoader(data)", "DataLoader(data, prefetch_factor=8)"),
    ("batch-size", "DataLoader batch_size", 64, "DataLoader(data, 8)", "DataLoader(data, 64)"),
    ("non-blocking", "copy to the device non_blocking", True, "x.to(device)", "x.to(device, non_blocking=True)"),
    ("fused-optimizer", "AdamW update", "fused", "AdamW(parameters)", "AdamW(parameters, fused=True)"),
    ("fused-optimizer", "Adam update", "fused", "Adam(parameters, foreach=True)", "Adam(parameters, fused=True)"),
    ("fused-optimizer", "SGD update", "foreach", "optim.SGD(parameters)", "optim.SGD(parameters, foreach=True)"),
    ("zero-grad-none", "zero_grad set_to_none", True, "model.zero_grad(set_to_none=False)",
     "model.zero_grad(set_to_none=True)"),
    ("zero-grad-none", "zero_grad set_to_none", True, "model.zero_grad(False)", "model.zero_grad(True)"),
    ("ddp-static-graph", "DistributedDataParallel find_unused_parameters", "static_graph",
     "nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)",
     "nn.parallel.DistributedDataParallel(model, static_graph=True)"),
    ("ddp-bucket-mb", "DistributedDataParallel bucket_cap_mb", 50, "DistributedDataParallel(model)",
     "DistributedDataParallel(model, bucket_cap_mb=50)"),
    ("threads", "torch.set_num_threads", 1, "torch.set_num_threads(8)", "torch.set_num_threads(1)"),
    ("threads", "torch.set_num_threads", 1, None, "torch.set_num_threads(1)"),
    ("cudnn-benchmark", "torch.backends.cudnn.benchmark", True, None, "torch.backends.cudnn.benchmark = True"),
    ("tf32", "float32 matrix products", "tf32", None, 'torch.set_float32_matmul_precision("high")'),
    ("tf32", "float32 in cuDNN", "tf32", None, "torch.backends.cudnn.allow_tf32 = True"),
    ("no-validate-args", "checks of distributions", False, None,
     "torch.distributions.Distribution.set_default_validate_args(False)"),
    ("no-debug", "anomaly detection", False, "torch.autograd.set_detect_anomaly(True)",
     "torch.autograd.set_detect_anomaly(False)"),
    ("no-debug", "torch.cuda.set_sync_debug_mode", "default", "torch.cuda.set_sync_debug_mode(1)",
     "torch.cuda.set_sync_debug_mode('default')"),
    ("amp", "Net", "bfloat16 on cpu", "y = net(x)",
     'with torch.autocast("cpu", dtype=torch.bfloat16):\n        y = net(x).float()'),
    ("amp", "Net, which returns Output", "bfloat16 on cpu", "Trainer(net, TrainingArguments('out')).train()",
     "Trainer(net, TrainingArguments('out', bf16=True)).train()"),
    ("compile", "Net", "compiled (default)", "net(x)", "net.compile()"),
    ("compile", "Net", "compiled (max-autotune)", "net(x)", 'net.compile(mode="max-autotune")'),
    ("compile", "Net", "compiled (default)", "Trainer(net, TrainingArguments('out')).train()",
     "Trainer(net, TrainingArguments('out', torch_compile=True)).train()"),
    ("channels-last", "Net", "NHWC", "net(x)", "net.to(memory_format=torch.channels_last)"),
    ("channels-last", "argument 1 of Net", "NHWC", "net(x)", "net(x.contiguous(memory_format=torch.channels_last))"),
    ("no-grad-eval", "passes in eval mode recording gradients", False, "model(x)", "with torch.no_grad():\n        model(x)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tweak", "what", "now", "before", "after"), WRITTEN, ids=[f"{one[0]}: {one[4]}" for one in WRITTEN]
)
def test_it_is_written_as_one_types_it(
    tweak: str, what: str, now: object, before: str | None, after: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        f"import torch\nfrom torch.utils.data import DataLoader\nfrom nets import Net\n\n\ndef work():\n    net = Net()\n    model.eval()\n    {before or 'pass'}\n"
    )
    line = 9 if before else 1
    setting = Setting(tweak, (f"--{tweak}",), {}, BITWISE)
    result = faster(setting, applied=(place(tweak, what, file if before else None, line, now),))
    found = of_variant(trial_results.trial(result, cwd=str(tmp_path), command=("python", "train.py")), result)
    assert found.by_hand == ()
    added = [
        said[1:].strip() for said in found.diff.splitlines() if said.startswith("+") and said[1:4] != "++ "
    ]
    assert [said for said in added if said] == [said.strip() for said in after.splitlines()]


def test_each_tweak_that_can_be_written_is_in_the_table() -> None:
    known = {tweak.id for tweak in tweak_catalogue.tweaks() if tweak_catalogue.declared(tweak.id).edits}
    assert known == {tweak for tweak, *_ in WRITTEN}
