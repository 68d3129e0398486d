"""Measures what activation checkpointing computes again, and how much memory is free: RecomputationFacts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from perfdoctor.facts.decode import location
from perfdoctor.facts.device.device import AHEAD, DeviceFacts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.running_totals import latest
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources, calls
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import GpuFacts, Location, MemoryFacts, Phase, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.trace.results import Launches
from perfdoctor.wire.events.recomputation import RecomputationEvent

# Times a forward: each matrix product has two gradients, and one where its weights are frozen.
BACKWARD, FROZEN_BACKWARD = 2.0, 1.0
OWN = re.compile(r"torch[/\\]utils[/\\]checkpoint\.py$")
LAYERS = re.compile(r"torch[/\\]nn[/\\]")  # what is checkpointed, where it is none of the user's
# How libraries are told to checkpoint: transformers, peft, timm, diffusers, torch.
SWITCHES = frozenset(
    "gradient_checkpointing_enable set_grad_checkpointing enable_gradient_checkpointing "
    "apply_activation_checkpointing checkpoint_wrapper".split()
)
OPTIONS = frozenset("gradient_checkpointing use_gradient_checkpointing grad_checkpointing".split())


@dataclass(frozen=True)
class RecomputationFacts:
    """Parts of the forward pass that run again inside backward, and the memory that they do it for."""

    calls_per_step: float
    share: Estimate  # of the step, that computing again takes
    at: Location | None  # the line that asks for it
    used_bytes: int  # of the memory that activations lie in, the machine's or a device's
    free_bytes: int  # of the same
    on_device: bool
    # Share of the step that checkpoint's own code takes on a host for which the device waits; None where the
    # device, or the CPU that computes, sets the pace.
    calling: float | None = None


@fact
def recomputation_facts(
    totals: list[RecomputationEvent],
    span: MeasuredSpan,
    run: RunFacts,
    step: StepFacts,
    memory: MemoryFacts | Missing,
    gpu: GpuFacts | Missing | None,
    device: DeviceFacts | Missing | None,
    launches: Launches | Missing | None,
    costs: StackCosts | Missing,
    sources: Sources,
) -> RecomputationFacts | Missing | None:
    """What is computed again in each step, or None where nothing is."""
    seen = latest(totals, span)
    if seen is None or step.mean_s <= 0:
        return None
    room = _on_device(gpu) if run.on_device else _on_host(memory)
    if isinstance(room, Missing):
        return room
    last, steps = seen
    again_s = last.seconds / steps
    host = _OnHost(min(again_s / step.mean_s, step.share(Phase.BACKWARD)), _own_s(costs) / step.mean_s)
    share = _computed(again_s, step, device) if run.on_device else Estimate(*[host.again] * 3)
    paced = _paced_by_host(share, host, device, launches)
    return RecomputationFacts(
        calls_per_step=last.calls / steps,
        share=paced or share,
        at=sources.shown(asked_for(sources, location(last.at))),
        used_bytes=room[0],
        free_bytes=room[1],
        on_device=run.on_device,
        calling=host.calling if paced else None,
    )


def _computed(seconds: float, step: StepFacts, device: DeviceFacts | Missing | None) -> Estimate:
    """The share of the step in which a device computes again.

    It does so long after the host asked it to. The host's time only tells which part of the forward pass runs
    again; the device computes that part, one forward and its backward.
    """
    forward = step.seconds.get(Phase.FORWARD, 0.0)
    part = min(1.0, seconds / forward) if forward > 0 else 1.0
    computing = step.share(Phase.FORWARD) + step.share(Phase.BACKWARD)
    if isinstance(device, DeviceFacts):
        computing = device.compute
    likely, most = (computing * part / (1.0 + part + times) for times in (BACKWARD, FROZEN_BACKWARD))
    return Estimate(likely / 2, likely, most)


@dataclass(frozen=True)
class _OnHost:
    """Shares of the step that the host takes."""

    again: float  # for parts that run again
    calling: float  # for checkpoint's own code, around what is checkpointed


def _paced_by_host(
    computed: Estimate,
    host: _OnHost,
    device: DeviceFacts | Missing | None,
    launches: Launches | Missing | None,
) -> Estimate | None:
    """The share that it takes of a host for which the device waits; None where that is no more.

    At least the parts that run again go, likely what checkpoint itself costs, too; but no more than what the
    device waits for, and computes again.
    """
    if not isinstance(device, DeviceFacts) or not isinstance(launches, Launches):
        return None
    if launches.queue_mean > AHEAD:
        return None
    all_of_it = host.again + host.calling
    low, likely, high = (
        max(on_device, min(on_host, on_device + device.launching))
        for on_device, on_host in (
            (computed.low, host.again),
            (computed.likely, all_of_it),
            (computed.high, all_of_it),
        )
    )
    return Estimate(low, likely, high) if likely > computed.likely else None


def _own_s(costs: StackCosts | Missing) -> float:
    """Seconds a step of the training thread in checkpoint's own code, around what it checkpoints."""
    if isinstance(costs, Missing):
        return 0.0
    return sum(cost.seconds for cost in costs.costs if not cost.in_worker and _is_own(cost))


def _is_own(cost: StackCost) -> bool:
    inside = [index for index, frame in enumerate(cost.beyond) if OWN.search(frame.file)]
    return bool(inside) and not any(LAYERS.search(frame.file) for frame in cost.beyond[inside[-1] + 1 :])


def _on_host(memory: MemoryFacts | Missing) -> tuple[int, int] | Missing:
    """Bytes in use and free; free is the least that the machine or a container's limit had left."""
    if isinstance(memory, Missing):
        return memory
    used, total, left = memory.peak_rss_bytes, memory.total_bytes, memory.available_bytes
    if used is None or total is None:
        return Missing("how much memory was in use could not be read")
    return used, max(0, total - used if left is None else min(left, total - used))


def _on_device(gpu: GpuFacts | Missing | None) -> tuple[int, int] | Missing:
    """Bytes in use and free of the device that has most in use, what torch's allocator keeps included."""
    if isinstance(gpu, GpuFacts) and gpu.memory_used_bytes and gpu.memory_total_bytes:
        return gpu.memory_used_bytes, max(0, gpu.memory_total_bytes - gpu.memory_used_bytes)
    return (
        gpu if isinstance(gpu, Missing) else Missing("how much memory of the device was in use is not known")
    )


def asked_for(sources: Sources, ran: Location | None) -> Location | None:
    """The line that asks for checkpointing: the one that ran a part, or what told a library to.

    A library's own call lies in no file of the user's: what ran it is then a whole step, or all of training.
    """
    if ran is None:
        return None
    listing = sources.file(ran.file)
    statement = listing.statement(ran.line)
    if statement is not None and any("checkpoint" in name for _, name in calls(statement)):
        return ran
    lines = sorted(_switches(listing.tree)) if listing.tree is not None else []
    if not lines:
        return ran
    scope = listing.scope(lines[0])
    name = getattr(scope, "name", "<module>")
    return Location(ran.file, lines[0], name)


def _switches(tree: ast.Module) -> Iterator[int]:
    """Lines that tell a library to checkpoint."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
        if name in SWITCHES:
            yield node.lineno
        for option in node.keywords:
            off = isinstance(option.value, ast.Constant) and not option.value.value
            if option.arg in OPTIONS and not off:
                yield option.value.lineno
