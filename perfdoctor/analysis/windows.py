"""What windows of torch.profiler add to a run's facts: they explain, the timers decide.

A window slows the host, not the device. So the device's time is taken from the window, the length of the
step from the timers, and what the device idles is what is left of that step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from perfdoctor.analysis.device import (
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    WaitFacts,
    attention_facts,
    blocked_at,
    copy_facts,
    device_facts,
    kernel_facts,
    matrix_facts,
    wait_facts,
)
from perfdoctor.analysis.exchange import CommFacts
from perfdoctor.analysis.ranks import RanksFacts
from perfdoctor.model import OperatorCost, StepFacts, WindowFacts
from perfdoctor.trace.results import CopySite, Launches, Peak, RankTrace

Windows = Mapping[str, RankTrace]  # by kind: "plain", "shapes", "stacks"

ON_DEVICE = (
    DeviceFacts, KernelFacts, MatrixFacts, CopyFacts, WaitFacts, Launches, Peak, RanksFacts, CommFacts,
)  # fmt: skip
ANYWHERE = (AttentionFacts,)  # what windows tell of a step on the CPU, too
NO_WINDOW = "no window of torch.profiler was recorded: the run was too short for one (--profiler-share)"
NO_WORK = "the window of torch.profiler holds no work of the device"
NO_SHAPES = "no window with shapes was recorded: the run was too short for one (--profiler-share)"
ONE_RANK = "one rank's window does not tell: perfdoctor trace RUN holds all ranks against each other"
PLAINEST = ("plain", "shapes", "stacks")  # the window that disturbs least comes first
DETAILED = ("shapes", "plain", "stacks")  # shapes cost the host time, not the device


def window_groups(windows: Windows, step: StepFacts, on_device: bool) -> dict[type, object]:
    """Groups by type: there, the reason why not, or None where there is nothing to measure."""
    plain = next((windows[kind] for kind in PLAINEST if kind in windows), None)
    detailed = next((windows[kind] for kind in DETAILED if kind in windows), None)
    groups: dict[type, object] = {
        WindowFacts: None if plain is None else window_facts(plain),
        AttentionFacts: _attention(windows, detailed, None) if detailed else NO_WINDOW,
    }
    if not on_device:
        return groups | dict.fromkeys(ON_DEVICE)
    device = unprofiled(plain, step) if plain else None
    seen = unprofiled(detailed, step) if detailed else None
    if plain is None or device is None or detailed is None or seen is None:
        return groups | dict.fromkeys((*ON_DEVICE, *ANYWHERE), NO_WINDOW if plain is None else NO_WORK)
    return groups | {
        DeviceFacts: device,
        KernelFacts: _kernels(windows, detailed, seen),
        MatrixFacts: matrix_facts(detailed, seen) if "shapes" in windows else NO_SHAPES,
        AttentionFacts: _attention(windows, detailed, seen),
        CopyFacts: _copies(windows, detailed, seen),
        WaitFacts: wait_facts(windows.get("stacks", plain)),
        Launches: plain.launches,
        Peak: plain.peak or f"the peak rates of {plain.device or 'the device'} are not known",
        RanksFacts: ONE_RANK,
    }


def _attention(windows: Windows, detailed: RankTrace, device: DeviceFacts | None) -> AttentionFacts | None:
    """Attention in the window that tells its sizes, with the lines of the one that tells those."""
    found = attention_facts(detailed, device)
    lines = attention_facts(windows["stacks"], None) if "stacks" in windows else None
    return replace(found, at=lines.at) if found and lines and not found.at else found


def _kernels(windows: Windows, detailed: RankTrace, device: DeviceFacts) -> KernelFacts:
    """Kernels of the window that tells their work, with the lines of the one that tells those."""
    found, stacks = kernel_facts(detailed, device), windows.get("stacks")
    at = {use.name: use.at for use in stacks.kernels} if stacks else {}
    return replace(found, kernels=tuple(replace(use, at=use.at or at.get(use.name)) for use in found.kernels))


def _copies(windows: Windows, detailed: RankTrace, device: DeviceFacts) -> CopyFacts | None:
    """Copies in the window that tells most of them, with the lines of the one that tells those."""
    found, stacks = copy_facts(detailed, device), windows.get("stacks")
    if found is None or stacks is None:
        return found
    places = {_kind(site): site.at for site in reversed(stacks.sites)}
    sites = [replace(site, at=site.at or places.get(_kind(site))) for site in found.sites]
    way = {(detour.out, detour.back, detour.same): detour for detour in reversed(stacks.detours)}
    detours = [
        replace(detour, out_at=seen.out_at, back_at=seen.back_at)
        if (seen := way.get((detour.out, detour.back, detour.same)))
        else detour
        for detour in found.detours
    ]
    return replace(found, at=blocked_at(stacks), sites=tuple(sites), detours=tuple(detours))


def _kind(site: CopySite) -> tuple[object, ...]:
    """What copies of one place have in common in every window: the bytes of each, not the shapes."""
    return site.direction, site.host_memory, site.op, (site.bytes or 0) // site.count


def window_facts(trace: RankTrace) -> WindowFacts | None:
    """The operators of the steps in a window, or None where it holds none."""
    on_device = trace.times is not None
    costs_us = {op.name: op.device_us if on_device else op.host_us for op in trace.ops}
    total_us = sum(costs_us.values())
    if total_us <= 0 or not trace.steps:
        return None
    operators = [
        OperatorCost(op.name, costs_us[op.name] / total_us, op.count / len(trace.steps))
        for op in sorted(trace.ops, key=lambda op: -costs_us[op.name])
        if costs_us[op.name] > 0
    ]
    return WindowFacts(trace.file, len(trace.steps), on_device, tuple(operators))


def unprofiled(trace: RankTrace, step: StepFacts) -> DeviceFacts | None:
    """The device's shares of the step as the timers saw it, or None in a window without work of a device."""
    device = device_facts(trace)
    if device is None or not device.steps or step.mean_s <= 0:
        return device
    stretch = device.window_s / device.steps / step.mean_s
    busy = device.compute + device.exposed_comm + device.exposed_copy
    stretch = min(stretch, 1 / busy) if busy > 0 else 1.0
    idle = sum(device.idle.values())
    left = (1 - busy * stretch) / idle if idle > 0 else 0.0
    return replace(
        device,
        window_s=step.mean_s * device.steps,
        compute=device.compute * stretch,
        exposed_comm=device.exposed_comm * stretch,
        exposed_copy=device.exposed_copy * stretch,
        comm=device.comm * stretch,
        idle={cause: share * left for cause, share in device.idle.items()},
    )
