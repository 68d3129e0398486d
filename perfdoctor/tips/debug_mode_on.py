"""A debugging mode was left on, and slows every step.

## What it sees
While training, on for most steps: anomaly detection, `CUDA_LAUNCH_BLOCKING`, deterministic algorithms, the
script's own profiler or the CUDA synchronisation debug mode; or lines that check for NaN and take noticeable
time.

## By hand
    torch.autograd.set_detect_anomaly(False)
    # unset CUDA_LAUNCH_BLOCKING
    torch.use_deterministic_algorithms(False)

## When not
While you are hunting an error. A check for NaN that skips an update is part of training: keep it. A mask of
missing values is no check. Where results must be bitwise reproducible, deterministic algorithms are worth
their cost. A profiler that records a few steps and stops is not reported.
"""

from __future__ import annotations

from perfdoctor.facts.host.debug_modes import DebugMode, DebugModeFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import Phase, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.02  # likely share of the step: less drowns in noise
SHOWN = 3  # places named
KEPT = "deterministic"  # the mode that the tweak leaves on: it makes results repeatable
Range = tuple[float, float, float]

# Of forward and backward, at worst, likely, at best. Anomaly detection keeps a Python traceback for each
# operation and looks for NaN in each gradient: it took 14 % (wide convolutions), 28 % to 65 % and 73 % (small
# layers) of both passes of six models on one core, torch 2.13.
ANOMALY = (0.10, 0.30, 0.75)
# Where its cost was measured: at worst only the tracebacks are saved, at best torch's work on them as well.
MORE = 1.3
LEAST_LEFT = 0.05  # of forward and of backward: measured by calls from Python, which cost more than from C++
# Of the step, with a device: an overhead of up to 746 %, 241 % and 196 % on three kinds, and of nothing
# where the same kernels run (Zhuang et al., arXiv:2106.11872). The best case here is an overhead of 150 %.
DETERMINISTIC = (0.0, 0.10, 0.60)
# Of the step: torch.profiler made steps 1.0 to 1.4 times as long, by what it records (docs/trace.md).
PROFILER = (0.0, 0.17, 0.29)
# Of the step, by argument: with launches that wait, host and device take turns; without, they overlap. Either
# can hide at most the shorter of the two.
BLOCKING = (0.0, 0.20, 0.50)
NOTHING: Range = (0.0, 0.0, 0.0)  # a warning per synchronisation, or CPU operations: known to be small

ON = {
    "anomaly": "anomaly detection is on",
    "blocking": "CUDA_LAUNCH_BLOCKING is set: every launch waits until the device has finished",
    "deterministic": "deterministic algorithms are on",
    "profiler": "the script's own profiler is recording",
    "sync": "the CUDA synchronisation debug mode is on",
}
FIXES = {
    "anomaly": "torch.autograd.set_detect_anomaly(False)",
    "blocking": "unset CUDA_LAUNCH_BLOCKING",
    "deterministic": "torch.use_deterministic_algorithms(False)",
    "profiler": "# profile a few steps only: torch.profiler.schedule(wait=..., warmup=1, active=3, repeat=1)",
    "sync": 'torch.cuda.set_sync_debug_mode("default")',
}


@tip(
    title="Turn off debugging modes",
    bottleneck=Bottleneck.HOST,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def debug_mode_on(run: RunFacts, step: StepFacts, debug: DebugModeFacts) -> Advice | None:
    """Names the modes that were on for most steps and are known to cost time."""
    costly = {mode: cost for mode in debug.modes if (cost := _cost(mode, run, step, debug))[1] > 0}
    # On a device a check waits for the work before it, and has no time of its own.
    checking = () if run.on_device else debug.checks
    checks = min(1.0, sum(line.share for line in checking))
    if max([checks, *(cost[1] for cost in costly.values())], default=0.0) < NOTICEABLE:
        return None
    gone = [_either([cost[case] for cost in costly.values()] + [checks]) for case in range(3)]
    deterministic = any(mode.name == KEPT for mode in costly)
    at = [mode.at for mode in costly if mode.at is not None] + [line.at for line in checking]
    because = [f"{ON[mode.name]}, in {mode.share:.0%} of the sampled steps" for mode in costly]
    if checks:
        because.append(f"lines that check for NaN take {checks:.1%} of the step")
    computing = _computing(step)
    return Advice(
        because=(*because, f"forward and backward are {computing:.0%} of the step")
        if costly
        else (*because,),
        change=removes(*gone),
        at=tuple(dict.fromkeys(at))[:SHOWN],
        tweak="--no-debug" if any(mode.name != KEPT for mode in costly) else None,
        same_result=not deterministic,
        code="\n".join(_fix(mode) for mode in costly)
        or "if step % 100 == 0:\n    ...  # checks that only raise an error; keep those that skip an update",
        bottleneck=None if run.device != "cpu" or not costly else Bottleneck.COMPUTE,
    )


def _fix(mode: DebugMode) -> str:
    """The user's own line to remove if it is a `with` block, else the call that turns the mode off."""
    text = mode.at.statement if mode.at is not None else None
    return f"# remove: {text}" if text is not None and text.startswith("with ") else FIXES[mode.name]


def _computing(step: StepFacts) -> float:
    return min(1.0, step.share(Phase.FORWARD) + step.share(Phase.BACKWARD))


def _cost(mode: DebugMode, run: RunFacts, step: StepFacts, debug: DebugModeFacts) -> Range:
    """Shares of the step that a mode is known to cost: low, likely, high."""
    computing = _computing(step)
    if mode.name == "anomaly" and debug.anomaly_s is not None:
        return _weighed(debug.anomaly_s, step)
    if mode.name == "anomaly":
        return ANOMALY[0] * computing, ANOMALY[1] * computing, ANOMALY[2] * computing
    if mode.name == "profiler":
        return PROFILER
    if run.device == "cpu":
        return NOTHING
    if mode.name == "deterministic":
        return DETERMINISTIC
    if mode.name != "blocking":
        return NOTHING
    if debug.device_busy is None:
        return BLOCKING
    shorter = min(debug.device_busy, 1.0 - debug.device_busy)
    return BLOCKING[0], shorter / 2, shorter


def _weighed(anomaly_s: tuple[float, float], step: StepFacts) -> Range:
    """Shares of the step that anomaly detection costs, from its measured cost."""
    forward, backward = ((1 - LEAST_LEFT) * step.share(phase) for phase in (Phase.FORWARD, Phase.BACKWARD))
    traced_s, checked_s = (part_s * step.backwards_per_step for part_s in anomaly_s)
    traced, checked = min(forward, traced_s / step.mean_s), min(backward, checked_s / step.mean_s)
    return traced, traced + checked, min(forward + backward, MORE * (traced + checked))


def _either(shares: list[float]) -> float:
    """The share that several changes remove together, each from what the others leave."""
    left = 1.0
    for share in shares:
        left *= 1.0 - min(1.0, share)
    return 1.0 - left
