"""A TraceReport as a page for people: the verdict, where the device's time goes, what to change, the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfdoctor.diagnosis.trace_ranks import host_step_s
from perfdoctor.diagnosis.trace_report import NO_TIME, TraceReport, device_unused
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.render import kernel_names, text
from perfdoctor.render import page as blocks
from perfdoctor.render.notes import all_worded
from perfdoctor.render.page import (
    BarPart,
    Bars,
    Block,
    Cell,
    Headline,
    Labelled,
    Page,
    Paragraph,
    Section,
)
from perfdoctor.render.pages import conclusions, trace_ranks
from perfdoctor.trace.lost import lost_work
from perfdoctor.trace.results import IdleCause, KernelClass, RankTrace, Roof

KERNELS, OPS, COPIES, WAITS = 5, 3, 3, 3  # rows shown without --top: the page of one rank is to fit a screen
FINDINGS = 3  # named without --top, the first in full; more are counted
MATTERS = 0.01  # of the whole: rows and tables below it are left to --top
LEAST_SHOWN = 0.001  # of the judged time: bars below it are left out
US = 1e-6
MISSING = "the device's work is missing"
NOT_COMPUTE = (KernelClass.COMMUNICATION, KernelClass.COPY, KernelClass.MEMSET)  # meet other limits

IDLE_COLOURS = {
    IdleCause.DATA_WAIT: "yellow",
    IdleCause.COPY: "magenta",
    IdleCause.OTHER_RANK: "blue",
}
HOST_CLASSES = {
    Bottleneck.DATA: ("in DataLoader", "yellow"),
    Bottleneck.COMPUTE: ("in operators", "green"),
    Bottleneck.HOST: ("other Python", "red"),
}

NEXT = (
    ("to view it", blocks.Span("perfdoctor trace TRACE --perfetto OUT.json.gz", code=True)),
    ("after a change", blocks.Span("perfdoctor trace --compare TRACE CHANGED_TRACE", code=True)),
    ("for more", "--top 20, --all, --json, or perfdoctor run train.py"),
)


def page(report: TraceReport, top: int | None = None, name_all: bool = False, again: str = "") -> Page:
    """The whole page, with `top` rows in each list, and with `name_all` the tips that could not be judged.

    `again` is what `perfdoctor try` needs beside a tweak to run the command of the trace again.
    """
    return blocks.page(_sections(report, top, name_all, again))


def _sections(report: TraceReport, top: int | None, name_all: bool, again: str) -> Iterator[Section]:
    trace = report.judged
    yield _title(report)
    yield conclusions.verdict(report.diagnosis, "Training" if report.trains else "The loop")
    yield _time(report)
    if len(report.ranks) > 1:
        yield from trace_ranks.sections(report)
    if report.findings:
        yield from _findings(report, top, again)
    elif report.diagnosis.names_bottleneck and not device_unused(trace):
        yield [Paragraph(blocks.strong("No known cause fits; perfdoctor run shows the lines of the script."))]
    yield from _work(trace, top)
    if notes := [*_skipped(report.ranks), *all_worded(report.notes)]:
        yield blocks.listed("Good to know", notes)
    reasons = conclusions.not_judged(report.not_judged, name_all)
    yield [Labelled((*(("" if number else "not judged", why) for number, why in enumerate(reasons)), *NEXT))]


def inside(report: TraceReport, top: int) -> Iterator[Section]:
    """Where the time of a step goes and into which work, without what is concluded from it."""
    yield _time(report)
    yield from _work(report.judged, top)


def _time(report: TraceReport) -> list[Block]:
    return _device_time(report) if report.device is not None else _host_time(report)


def _work(trace: RankTrace, top: int | None) -> Iterator[Section]:
    """What the device and the host do, costliest first."""
    if trace.classes:
        yield [_classes(trace, 0.0 if top else MATTERS)]
    if trace.kernels:
        yield [_top_kernels(trace, top or KERNELS)]
    if trace.ops:
        yield [_top_ops(trace, top or OPS)]
    yield from _transfers(trace, top)


def _title(report: TraceReport) -> list[Block]:
    trace, ranks = report.judged, len(report.ranks)
    steps = text.count(len(trace.steps), "step") if trace.steps else "no step marked"
    facts = [
        trace.device or _no_device(trace),
        text.count(ranks, "rank") if ranks > 1 else "",
        f"{steps} in {text.duration((trace.end_ns - trace.begin_ns) / 1e9)}",
        _memory(trace),
    ]
    name = (blocks.strong("perfdoctor trace  "), blocks.Span(trace.file, code=True))
    return [Headline(name, level=1), Paragraph(blocks.quiet(text.joined(facts)))]


def _no_device(trace: RankTrace) -> str:
    """What stands where a device's name does if there is none."""
    if trace.times is not None:
        return "device not named"
    return MISSING if lost_work(trace) else "CPU only"


def _memory(trace: RankTrace) -> str:
    if trace.memory is None:
        return ""
    total = f" of {text.size(trace.memory.total_bytes)}" if trace.memory.total_bytes else ""
    return f"memory {text.size(trace.memory.allocated_bytes)}{total}"


def _device_time(report: TraceReport) -> list[Block]:
    """Where the judged time goes, each bar beginning where the one above ends."""
    device = report.device
    if device is None:
        return []
    each_s = device.window_s / (device.steps or 1)
    parts = [("compute", device.compute, "green")]
    parts.append(("communication", device.exposed_comm, "blue"))
    parts.append(("copies", device.exposed_copy, "magenta"))
    causes = sorted(device.idle.items(), key=lambda entry: -entry[1])
    parts += [(cause.label, share, IDLE_COLOURS.get(cause, "red")) for cause, share in causes]
    hidden = device.comm - device.exposed_comm
    told = [f"device busy {text.percent(max(0.0, 1 - sum(device.idle.values())))}"]
    if hidden >= LEAST_SHOWN:
        told.append(f"{text.percent(hidden / device.comm)} of communication hidden")
    return _bars("One step" if device.steps else "Device's span", each_s, ", ".join(told), parts)


def _host_time(report: TraceReport) -> list[Block]:
    """The same for a trace without a device, or without any time of it."""
    trace = report.judged
    whole_s = host_step_s(trace) or (trace.end_ns - trace.begin_ns) / 1e9
    parts = [
        (label, report.diagnosis.classes.get(kind, 0.0), colour)
        for kind, (label, colour) in HOST_CLASSES.items()
    ]
    told = MISSING if lost_work(trace) else "no work of a device"
    if trace.times is not None:
        told = NO_TIME
    return _bars("One step" if trace.steps else "The trace", whole_s, told, parts)


def _bars(what: str, whole_s: float, told: str, parts: Sequence[tuple[str, float, str]]) -> list[Block]:
    drawn = (BarPart(name, text.seconds(share * whole_s), share, colour) for name, share, colour in parts)
    heading = Headline(
        (blocks.strong(f"{what}: {text.seconds(whole_s)}"), blocks.quiet(f"  {told}")), level=5
    )
    return [heading, Bars(tuple(drawn), LEAST_SHOWN)]


def _findings(report: TraceReport, top: int | None, again: str) -> Iterator[Section]:
    """The best in full, the next as a title and a reason; all in full with --top."""
    yield [Headline(blocks.strong("What to change, best first"))]
    for finding in report.findings[: top or FINDINGS]:
        yield conclusions.finding(finding, "", brief=top is None and finding.rank > 1, again=again)
    left = len(report.findings) - (top or FINDINGS)
    if left > 0:
        yield [Paragraph(f"and {text.count(left, 'more finding')}: --top {len(report.findings)}")]


def _classes(trace: RankTrace, least: float) -> Block:
    total_us = sum(use.us for use in trace.classes)
    roofs = {roof.kind: roof for roof in trace.roofs}
    rows = [
        (
            use.kind.value,
            text.seconds(use.us * US),
            text.percent(use.us / (total_us or 1.0)),
            f"{use.count:,}",
            text.percent(use.tensor_core_us / use.us) if use.tensor_core_us and use.us else "",
            _reached(roofs.get(use.kind)),
        )
        for use in trace.classes
        if use.us >= least * total_us
    ]
    return blocks.table("Device work", ["time", "share", "count", "tensor", "reached"], rows)


def _reached(roof: Roof | None) -> str:
    """How near a class comes to the limit that it would meet first."""
    if roof is None or roof.kind in NOT_COMPUTE:
        return ""
    if roof.bound == "memory" or roof.flops_per_s is None:
        rate, unit, share = roof.bytes_per_s, "GB/s", roof.bytes_share
        rate = rate / 1e9 if rate is not None else None
    else:
        rate, unit, share = roof.flops_per_s / 1e12, "TFLOP/s", roof.flops_share
    if rate is None:
        return ""
    of_peak = f", {text.percent(share)} of peak" if share is not None else ""
    return f"{text.figures(rate)} {unit}{of_peak}"


def _top_kernels(trace: RankTrace, most: int) -> Block:
    total_us = sum(kernel.us for kernel in trace.kernels) or 1.0
    rows = [
        (
            kernel_names.kernel(kernel.name),
            text.seconds(kernel.us * US),
            text.percent(kernel.us / total_us),
            f"{kernel.count:,}",
        )
        for kernel in trace.kernels[:most]
    ]
    return blocks.table(f"Kernels, {_top_of(most, len(trace.kernels))}", ["time", "share", "count"], rows)


def _top_ops(trace: RankTrace, most: int) -> Block:
    on_device = ["device"] if trace.times is not None else []
    rows: list[tuple[Cell, ...]] = []
    for op in trace.ops[:most]:
        times_us = (op.device_us, op.host_us)[-len(on_device) - 1 :]
        rows.append((op.name, *(text.seconds(us * US) for us in times_us), f"{op.count:,}"))
    return blocks.table(f"Operators, {_top_of(most, len(trace.ops))}", [*on_device, "host", "count"], rows)


def _top_of(rows: int, count: int) -> str:
    return f"top {rows} of {count:,}" if count > rows else f"all {count:,}"


def _transfers(trace: RankTrace, top: int | None) -> Iterator[Section]:
    """Copies, and waits for the device."""
    span_us = trace.times.span_us if trace.times is not None else 0.0
    least_us = 0.0 if top else MATTERS * span_us
    if sum(copy.us for copy in trace.copies) > least_us:
        yield [_copies(trace, top or COPIES)]
    if any(max(call.us, call.idle_us) > least_us for call in trace.blocking):
        yield [_waits(trace, top or WAITS)]


def _copies(trace: RankTrace, most: int) -> Block:
    rows = [
        (
            f"{copy.direction}, {copy.host_memory}" if copy.host_memory else copy.direction,
            text.seconds(copy.us * US),
            f"{copy.count:,}",
            text.size(copy.bytes) if copy.bytes is not None else "",
            text.figures(copy.gb_per_s) if copy.gb_per_s is not None else "",
        )
        for copy in trace.copies[:most]
    ]
    return blocks.table("Copies", ["time", "count", "bytes", "GB/s"], rows)


def _waits(trace: RankTrace, most: int) -> Block:
    rows = []
    for call in trace.blocking[:most]:
        place = text.place(call.at, "") if call.at else call.annotation
        name = " in ".join(part for part in (call.call, call.op) if part)
        times = text.seconds(call.us * US), f"{call.count:,}", text.seconds(call.idle_us * US)
        rows.append((f"{name} at {place}" if place else name, *times))
    return blocks.table("The host waits for the device", ["time", "count", "device idles"], rows)


def _skipped(ranks: Sequence[RankTrace]) -> list[str]:
    """What of the files could not be used."""
    return [f"{trace.file}: {trace.skipped.because}" for trace in ranks if trace.skipped.because is not None]
