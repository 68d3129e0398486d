"""What each tweak that can be written into a script becomes there, with what it tells of the place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.model.trial import Place, Setting, Variant
from perfdoctor.probe.trial.tweak import BITWISE
from perfdoctor.trials.edits.patch_file import of_variant
from perfdoctor.trials.settings import tweak_catalogue
from tests.support import trial_results

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
    ("no-grad-eval", "passes in eval mode recording gradients", False, "model(x)", "@torch.no_grad()"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tweak", "what", "now", "before", "after"), WRITTEN, ids=[f"{one[0]}: {one[4]}" for one in WRITTEN]
)
def test_it_is_written_as_one_types_it(
    tweak: str, what: str, now: object, before: str | None, after: str, tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    file.write_text(f"import torch\n\n\ndef work():\n    model.eval()\n    {before or 'pass'}\n")
    line = 6 if before else 1
    place = Place(tweak, what, Location(str(file), line, "work") if before else None, None, now)
    setting = Setting(tweak, (f"--{tweak}",), {}, BITWISE)
    told = (trial_results.execution(applied=(place,)),)
    result = replace(trial_results.FASTER, variant=Variant((setting,)), executions=told)
    found = of_variant(trial_results.trial(result, cwd=str(tmp_path), command=("python", "train.py")), result)
    assert found.by_hand == ()
    added = [
        said[1:].strip() for said in found.diff.splitlines() if said.startswith("+") and said[1:4] != "++ "
    ]
    assert [said for said in added if said] == [after]


def test_each_tweak_that_can_be_written_is_in_the_table() -> None:
    known = {tweak.id for tweak in tweak_catalogue.tweaks() if tweak_catalogue.declared(tweak.id).edits}
    assert known == {tweak for tweak, *_ in WRITTEN}
