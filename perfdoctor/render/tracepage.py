"""A TraceReport as a page for people: the verdict, where the device's time goes, what to change, the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from perfdoctor.analysis.device import NOT_COMPUTE, DeviceFacts, idle_label
from perfdoctor.analysis.traces import TraceReport
from perfdoctor.model import Bottleneck
from perfdoctor.render import names, parts, traceranks, words
from perfdoctor.render.words import harmless
from perfdoctor.trace.measure import INVALID
from perfdoctor.trace.results import IdleCause, KernelClass, RankTrace, Roof

KERNELS, OPS, COPIES, WAITS = 5, 3, 3, 3  # rows shown without --top: the page of one rank is to fit a screen
FINDINGS = 3  # named without --top, the first in full; more are counted
MATTERS = 0.01  # of the whole: rows and tables below it are left to --top
LEAST_SHOWN = 0.001  # of the judged time: bars below it are left out
US = 1e-6
TRAINS = re.compile(r"backward|autograd|optimizer|_foreach_|_fused_adam|_fused_sgd", re.IGNORECASE)

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


def page(report: TraceReport, width: int = 80, colour: bool = False, top: int | None = None) -> str:
    """The whole page as text, at most `width` columns wide, with `top` rows in each list."""
    columns = parts.columns(width)
    return parts.spaced(_blocks(report, columns - 2 * parts.INDENT, top), columns, colour)


def _blocks(report: TraceReport, columns: int, top: int | None) -> Iterator[RenderableType]:
    trace = report.judged
    yield _title(report)
    yield parts.verdict(report.diagnosis, "Training" if _trains(report.ranks) else "The loop")
    yield _device_time(report.device) if report.device is not None else _host_time(report)
    if len(report.ranks) > 1:
        yield traceranks.block(report)
    if report.findings:
        yield _findings(report, top)
    elif report.diagnosis.verdict in parts.IF_FREE:
        yield Text("No tip fits this trace: perfdoctor run shows the lines of the script.", style="bold")
    if trace.classes:
        yield _classes(trace, 0.0 if top else MATTERS)
    if trace.kernels:
        yield _top_kernels(trace, top or KERNELS)
    if trace.ops:
        yield _top_ops(trace, top or OPS)
    yield from _transfers(trace, top)
    if report.notes or _skipped(report.ranks):
        yield parts.listed("Good to know", [*_skipped(report.ranks), *report.notes])
    yield _footer(report)


def _trains(ranks: Sequence[RankTrace]) -> bool:
    """Whether anything in the traces belongs to a backward pass or an optimizer; without operators, maybe."""
    trained = any(use.kind is KernelClass.OPTIMIZER for trace in ranks for use in trace.classes)
    ops = [op.name for trace in ranks for op in trace.ops]
    return trained or not ops or any(TRAINS.search(name) for name in ops)


def _title(report: TraceReport) -> RenderableType:
    trace, ranks = report.judged, len(report.ranks)
    steps = words.count(len(trace.steps), "step") if trace.steps else "no step marked"
    facts = [
        harmless(trace.device or _no_device(trace)),
        words.count(ranks, "rank") if ranks > 1 else "",
        steps,
        words.duration((trace.end_ns - trace.begin_ns) / 1e9),
        _memory(trace),
    ]
    name = Text.assemble(("perfdoctor trace  ", "bold"), harmless(trace.file))
    name.overflow = "fold"
    return Group(name, Text(words.joined(facts), style=parts.QUIET))


def _no_device(trace: RankTrace) -> str:
    """What stands where a device's name does if there is none."""
    if trace.times is not None:
        return "device not named"
    return "the device's work is missing" if INVALID in trace.notes else "CPU only"


def _memory(trace: RankTrace) -> str:
    if trace.memory is None:
        return ""
    total = f" of {words.size(trace.memory.total_bytes)}" if trace.memory.total_bytes else ""
    return f"memory {words.size(trace.memory.allocated_bytes)}{total}"


def _device_time(device: DeviceFacts) -> RenderableType:
    """Where the judged time goes, each bar beginning where the one above ends."""
    idle = sum(device.idle.values())
    rows = [("compute", device.compute, "green")]
    rows.append(("communication", device.exposed_comm, "blue"))
    rows.append(("copies", device.exposed_copy, "magenta"))
    causes = sorted(device.idle.items(), key=lambda entry: -entry[1])
    rows += [(idle_label(cause), share, IDLE_COLOURS.get(cause, "red")) for cause, share in causes]
    each_s = device.window_s / (device.steps or 1)
    hidden = device.comm - device.exposed_comm
    told = [f"device busy {words.percent(max(0.0, 1 - idle))}"]
    if hidden >= LEAST_SHOWN:
        told.append(f"{words.percent(hidden)} of communication hidden")
    return _bars("One step" if device.steps else "Device's span", each_s, ", ".join(told), rows)


def _host_time(report: TraceReport) -> RenderableType:
    """The same for a trace without a device."""
    trace = report.judged
    steps_s = sum(step.times.span_us for step in trace.steps) * US
    whole_s = steps_s / len(trace.steps) if steps_s else (trace.end_ns - trace.begin_ns) / 1e9
    rows = [
        (label, report.diagnosis.classes.get(kind, 0.0), colour)
        for kind, (label, colour) in HOST_CLASSES.items()
    ]
    return _bars("One step" if steps_s else "The trace", whole_s, "no work of a device", rows)


def _bars(what: str, whole_s: float, told: str, rows: Sequence[tuple[str, float, str]]) -> RenderableType:
    heading = Text.assemble((f"{what}: {words.seconds(whole_s)}", "bold"), (f"  {told}", parts.QUIET))
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(ratio=1)
    before = 0.0
    for label, share, colour in rows:
        if share >= LEAST_SHOWN:
            bar = parts.Bar(before, before + share, colour)
            table.add_row(label, words.seconds(share * whole_s), words.percent(share), bar)
        before += share
    return Group(heading, table)


def _findings(report: TraceReport, top: int | None) -> RenderableType:
    """The best in full, the next as a title and a reason; all in full with --top."""
    blocks: list[RenderableType] = [Text("What to change, best first", style="bold")]
    for finding in report.findings[: top or FINDINGS]:
        brief = top is None and finding.rank > 1
        blocks += ["", parts.finding(finding, "", brief)]
    left = len(report.findings) - (top or FINDINGS)
    if left > 0:
        blocks += ["", Text(f"and {words.count(left, 'more finding')}: --top {len(report.findings)}")]
    return Group(*blocks)


def _classes(trace: RankTrace, least: float) -> RenderableType:
    table = parts.table("Device work", "time", "share", "count", "tensor", "reached")
    total_us = sum(use.us for use in trace.classes) or 1.0
    roofs = {roof.kind: roof for roof in trace.roofs}
    for use in trace.classes:
        if use.us < least * total_us:
            continue
        cores = words.percent(use.tensor_core_us / use.us) if use.tensor_core_us and use.us else ""
        table.add_row(
            use.kind.value,
            words.seconds(use.us * US),
            words.percent(use.us / total_us),
            f"{use.count:,}",
            cores,
            _reached(roofs.get(use.kind)),
        )
    return table


def _reached(roof: Roof | None) -> str:
    """How near a class comes to the limit that it would meet first."""
    if roof is None or roof.kind in NOT_COMPUTE:  # copies between host and device meet other limits
        return ""
    if roof.bound == "memory" or roof.flops_per_s is None:
        rate, unit, share = roof.bytes_per_s, "GB/s", roof.bytes_share
        rate = rate / 1e9 if rate is not None else None
    else:
        rate, unit, share = roof.flops_per_s / 1e12, "TFLOP/s", roof.flops_share
    if rate is None:
        return ""
    of_peak = f", {words.percent(share)} of peak" if share is not None else ""
    return f"{words.figures(rate)} {unit}{of_peak}"


def _top_kernels(trace: RankTrace, rows: int) -> RenderableType:
    table = parts.table(f"Kernels, {_top_of(rows, len(trace.kernels))}", "time", "share", "count")
    total_us = sum(kernel.us for kernel in trace.kernels) or 1.0
    for kernel in trace.kernels[:rows]:
        share = words.percent(kernel.us / total_us)
        table.add_row(
            harmless(names.kernel(kernel.name)), words.seconds(kernel.us * US), share, f"{kernel.count:,}"
        )
    return table


def _top_ops(trace: RankTrace, rows: int) -> RenderableType:
    on_device = ("device",) if trace.times is not None else ()
    table = parts.table(f"Operators, {_top_of(rows, len(trace.ops))}", *on_device, "host", "count")
    for op in trace.ops[:rows]:
        times = [words.seconds(us * US) for us in (op.device_us, op.host_us)[-len(on_device) - 1 :]]
        table.add_row(harmless(op.name), *times, f"{op.count:,}")
    return table


def _top_of(rows: int, count: int) -> str:
    return f"top {rows} of {count:,}" if count > rows else f"all {count:,}"


def _transfers(trace: RankTrace, top: int | None) -> Iterator[RenderableType]:
    """Copies, and waits for the device."""
    span_us = trace.times.span_us if trace.times is not None else 0.0
    least_us = 0.0 if top else MATTERS * span_us
    if sum(copy.us for copy in trace.copies) > least_us:
        table = parts.table("Copies", "time", "count", "bytes", "GB/s")
        for copy in trace.copies[: top or COPIES]:
            memory = f", {copy.host_memory}" if copy.host_memory else ""
            rate = words.figures(copy.gb_per_s) if copy.gb_per_s is not None else ""
            size = words.size(copy.bytes) if copy.bytes is not None else ""
            label = harmless(f"{copy.direction}{memory}")
            table.add_row(label, words.seconds(copy.us * US), f"{copy.count:,}", size, rate)
        yield table
    if any(max(call.us, call.idle_us) > least_us for call in trace.blocking):
        table = parts.table("The host waits for the device", "time", "count", "device idles")
        for call in trace.blocking[: top or WAITS]:
            place = words.place(call.at, "") if call.at else call.annotation
            label = " in ".join(part for part in (call.call, call.op) if part)
            label = f"{label} at {place}" if place else label
            cells = words.seconds(call.us * US), f"{call.count:,}", words.seconds(call.idle_us * US)
            table.add_row(harmless(label), *cells)
        yield table


def _skipped(ranks: Sequence[RankTrace]) -> list[str]:
    """What of the files could not be used."""
    return [f"{trace.file}: {trace.skipped.because}" for trace in ranks if trace.skipped.because is not None]


def _footer(report: TraceReport) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, style=parts.QUIET)
    table.add_column(ratio=1, overflow="fold")
    not_judged = len(report.not_judged)
    if not_judged:
        table.add_row("not judged", f"{words.count(not_judged, 'tip')}: --json says which and why")
    table.add_row("to look at it", "perfdoctor trace TRACE --perfetto OUT.json.gz")
    table.add_row("after a change", "perfdoctor trace --compare TRACE CHANGED_TRACE")
    table.add_row("for more", "--top 20, --json, or perfdoctor run train.py")
    return table
