"""The host waits for the device in every step, and then the device waits for the host.

## What it sees
Calls such as `.item()`, `.cpu()`, `.nonzero()`, printing a tensor or an explicit synchronisation return only
when the device has finished all its work; the trace shows how long it then idles, for each operator and line.

## By hand
    if step % 50 == 0:
        print(loss.item())          # or keep it on the device: total += loss.detach()

## When not
A wait during which the device stays busy costs nothing: that time is computing. A value that decides what
training does next is needed in every step: compute with it on the device (`torch.where`).
"""

from __future__ import annotations

from perfdoctor.facts.device.device import COPYING, WaitFacts, at_line
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.results import BlockingCalls

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
REPEATED = 5  # calls, where no step is marked: fewer are set-up or the profiler's own
SURE = 0.5  # of what goes, if the next wait takes over the other half
SHOWN = 3  # places named
COPY = "memcpy"  # in the names of calls that copy
FREE = "free"  # memory given back: inside an operator, the allocator's own
CONVOLUTION = "conv"  # convolutions time their algorithms once for each shape, by events


@tip(
    title="Synchronise with the device less often",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    applies=("gpu",),
    checked=Checked.TRACES,
)
def device_sync_in_loop(waits: WaitFacts) -> Advice | None:
    """Names the waits that leave the device without work, by operator and line."""
    calls = sorted((call for call in waits.calls if _is_meant(call, waits)), key=lambda call: -call.idle_us)
    waited, idle, gone = waits.behind(calls)
    if gone < NOTICEABLE:
        return None
    lines = waits.in_lines(calls)
    most = min(waits.idles, idle + lines)  # a host that is ahead keeps the device busy
    return Advice(
        because=(
            f"the host waits for the device {min(waited, 1.0):.1%} of the time",
            f"the device idles {min(idle, 1.0):.1%} of the time because of these waits",
            *([f"their lines take {lines:.1%} of the step"] if lines > min(waited, idle) else []),
            *(_place(call, waits) for call in calls[:SHOWN]),
        ),
        change=removes(SURE * gone, gone, max(gone, min(most, 1.0))),
        at=tuple(dict.fromkeys(call.at for call in calls if call.at is not None))[:SHOWN],
        code="if step % 50 == 0:\n    ...  # values that are only reported\n"
        "# values that training needs: compute with them on the device, torch.where(condition, a, b)",
    )


def _is_meant(call: BlockingCalls, waits: WaitFacts) -> bool:
    """Whether a call waits in the loop and leaves the device idle; other tips judge copies of batches.

    Older versions of torch make `.item()` wait inside its copy, to pageable memory; `.cpu()` always does.
    """
    copies = COPY in call.call.lower() and (call.op is None or call.op in COPYING)
    moves = call.direction == "HtoD" or (copies and call.direction != "DtoH")
    name, op = call.call.lower(), (call.op or "").lower()
    internal = bool(op) and (FREE in name or CONVOLUTION in op)
    return not internal and call.idle_us > 0 and call.count >= (waits.judged_steps or REPEATED) and not moves


def _place(call: BlockingCalls, waits: WaitFacts) -> str:
    what = call.op or call.call
    where = at_line(call.at)
    waited_s, idle_s = waits.per_step_s(call.us), waits.per_step_s(call.idle_us)
    if waited_s is None or idle_s is None:
        waited_ms, idle_ms, often = call.us / 1e3, call.idle_us / 1e3, f" in {call.count:,} calls"
    else:
        waited_ms, idle_ms, often = waited_s * 1e3, idle_s * 1e3, " a step"
    return f"{what}{where}: {waited_ms:.2f} ms of waiting{often}, then {idle_ms:.2f} ms idle"
