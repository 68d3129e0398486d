"""One check of bench/gpu.py, in a process of its own: what it finds goes as a row into a JSON file.

python bench/gpu_checks.py NAME --device cuda|cpu --row FILE [--earlier FILE] [--keep DIR]
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import accuracy
import numpy as np
import overhead
import tried

from perfdoctor.runs import directory, records, windows
from perfdoctor.tips import catalogue
from perfdoctor.trace.measure.measure import measure
from perfdoctor.trace.parse.read import read
from perfdoctor.trace.results import RankTrace
from perfdoctor.wire.step_rows import DISTURBED

LOADS = Path(__file__).parent / "loads" / "gpu"
COMMON = LOADS / "common.py"
CURED = "# cured: "  # a line that holds what stands in place of the one above it, in the cured twin
LIGHT = overhead.WAYS["always on"]
# Windows as early as they fit: by default a run has to last minutes before it pays for CUPTI's start.
WINDOWS = ("--profiler-share", "1")
ALWAYS_BUSY, GRAPHED = "plain", "cuda_graph"  # the device never waits; no window after a graph's capture
TRAINERS = ("transformers", "lightning")
LOCK = "PERFDOCTOR_GPU_LOCK"  # names a file: whoever holds it has the device to itself
WATCHED_S, BY_HAND_S = 5.0, 1.0  # enough on a device for hundreds of steps
TRIED_S = 25  # holds a few starts and their turns
IN_TURNS = ("bare", "light", "light", "bare")  # so that drift cancels

PHASES_WITHIN = 0.01  # of what the script's own clock says
BUSY_WITHIN = 0.02  # of what CUDA events measure, where the device never waits
ADDED_US = 40.0  # a step, at most
SAMPLED_WITHIN = 0.10  # of the memory that the script saw in use at its end
PLANTS = 1.1  # times as fast with its cause cured: a script that gains less plants nothing on that device
BY_HAND_WITHIN = 0.05  # beyond a trial's interval, for the same change made by hand

HEADINGS = {
    "facts": ("check", "what came out"),
    "runs": ("script", "steps", "phases off by", "losses", "synchronisations", "added a step", "windows"),
    "causes": accuracy.HEADINGS,
    "tweaks": (
        "tweaks",
        "script",
        "verdict",
        "applied to",
        "tried",
        "by hand",
        "pays off after",
        "device memory",
    ),
}
Json = dict[str, Any]


@dataclass(frozen=True)
class Here:
    """Where a check runs, and with what."""

    device: str  # "cuda" or "cpu", on which everything is tiny
    folder: Path  # for its files, gone afterwards
    keep: Path | None = None  # where the run directories of watched scripts stay
    earlier: Mapping[str, Json] = field(default_factory=dict)  # rows, by check

    @property
    def is_tiny(self) -> bool:
        return self.device == "cpu"

    def steps(self, step_s: float, seconds: float) -> int:
        """How many steps take about so long."""
        seconds, most = (1.0, 300) if self.is_tiny else (seconds, 20_000)
        return max(30, min(most, int(seconds / step_s)))


@dataclass(frozen=True)
class Row:
    """What came of a check."""

    check: str
    table: str
    cells: list[str]
    broken: list[str] = field(default_factory=list)  # promises, a phrase each
    figures: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """A check of one part."""

    name: str
    part: int
    table: str
    run: Callable[[Here], Row]
    limit_s: float


# ---------------------------------------------------------------- running scripts


def run_script(here: Here, script: Path, *arguments: str, way: Sequence[str] | None = None) -> Json:
    """Run a script bare, or watched in a way; what it wrote of itself, and where its run is."""
    number = len(list(here.folder.glob("figures*")))
    figures, out = here.folder / f"figures{number}.json", here.folder / f"run{number}"
    words = [str(script), "--device", here.device, "--figures", str(figures), *arguments]
    watch = [*overhead.WATCH, *way, "--out", str(out)] if way is not None else [sys.executable]
    accuracy.call([*watch, *words], script.parent)
    return {**json.loads(figures.read_text()), "out": str(out)}


def report_of(out: Path) -> Json:
    """The report of the run in a folder."""
    words = [sys.executable, "-m", "perfdoctor", "report", "--json", "--out", str(out)]
    return dict(json.loads(accuracy.call(words, out.parent)))


def written(here: Here, name: str) -> accuracy.Truth:
    """A script and its cured twin in a folder of their own, beside what they share."""
    source = (LOADS / f"{name}.py").read_text(encoding="utf-8")
    (here.folder / COMMON.name).write_text(COMMON.read_text(encoding="utf-8"), encoding="utf-8")
    script = here.folder / f"{name}.py"
    script.write_text(source, encoding="utf-8")
    if (twin := cured(source)) != source:
        script.with_stem(f"{name}_fixed").write_text(twin, encoding="utf-8")
    return accuracy.of_header(script)


def cured(source: str) -> str:
    """The source with each line that a comment below it cures replaced."""
    lines: list[str] = []
    for line in source.splitlines():
        indent, is_cure, cure = line.partition(CURED)
        if is_cure and not indent.strip():
            lines[-1] = f"{indent}{cure}"
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- part 1: does it work at all


def machine(here: Here) -> Row:
    """What there is: the device, and what perfdoctor needs of it."""
    import torch

    from perfdoctor.trace.measure.device_peaks import peak
    from perfdoctor.trace.parse.columns import DeviceProperties
    from perfdoctor.watch.samplers import gpu

    figures: Json = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": sys.version.split()[0]}
    broken: list[str] = []
    name = "a CPU"
    if here.device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        name = properties.name
        known = peak(DeviceProperties(0, name, properties.total_memory))
        figures |= {
            "capability": f"{properties.major}.{properties.minor}",
            "memory_bytes": properties.total_memory,
            "cudnn": torch.backends.cudnn.version(),
            "peak": known.source if known else None,
            "nvml": gpu.load() is not None,
        }
        broken += [] if known else ["its peak rates are not known"]
        broken += [] if figures["nvml"] else ["NVML cannot be loaded"]
    said = ", ".join(f"{what} {value}" for what, value in figures.items() if value is not None)
    return Row("machine", "facts", ["machine", f"{name}: {said}"], broken, {"name": name, **figures})


def samples(here: Here) -> Row:
    """What NVML was asked once a second, against what the script saw itself."""
    script = LOADS / "runs_plain.py"
    seen = run_script(here, script, "--seconds", "1" if here.is_tiny else "8", way=LIGHT)
    run = directory.latest(Path(seen["out"]))
    lines = records.read(run).gpus.get(0, ())
    if here.is_tiny:
        return Row("samples", "facts", ["samples", f"{len(lines)} lines without a device"])
    used = [line["memory_used_bytes"] for line in lines if line.get("memory_used_bytes")]
    busy = [line["utilisation"] for line in lines if line.get("utilisation") is not None]
    off = max(used) / seen["used_bytes"] - 1 if used else math.nan
    broken = [] if len(lines) >= 8 else [f"{len(lines)} lines in more than 8 s"]
    broken += [] if abs(off) <= SAMPLED_WITHIN else [f"memory in use is off by {off:+.0%}"]
    broken += [] if busy and max(busy) > 0.5 else ["utilisation of a busy device is not above 50 %"]
    most = f"{max(busy):.0%}" if busy else "unknown"
    said = f"{len(lines)} lines; utilisation up to {most}; memory off by {off:+.1%}"
    figures = {"lines": list(lines)[:3], "used_bytes": seen["used_bytes"]}
    return Row("samples", "facts", ["samples", said], broken, figures)


def runs(here: Here, name: str) -> Row:
    """A script bare and watched, in turns, and once with everything that watching can do."""
    if name == "trainer" and not any(map(find_spec, TRAINERS)):
        said = f"not run: neither of {' and '.join(TRAINERS)} is installed"
        return Row(f"runs {name}", "runs", [name, said, *["-"] * (len(HEADINGS["runs"]) - 2)])
    script = LOADS / f"runs_{name}.py"
    count = 30 if here.is_tiny else 300
    seen: dict[str, list[Json]] = {"bare": [], "light": []}
    for number, way in enumerate(IN_TURNS):
        trace = here.folder / f"own{number}.json"
        words = ("--steps", str(count), "--trace", str(trace))
        figures = run_script(here, script, *words, way=LIGHT if way == "light" else None)
        seen[way].append({**figures, "synchronisations": synchronisations(trace)})
    bare, light = seen["bare"], seen["light"]
    steps = here.steps(bare[0]["step_s"], WATCHED_S)
    whole = run_script(here, script, "--steps", str(steps), way=WINDOWS)
    steps_told = report_of(Path(light[0]["out"]))["steps"]
    answers = [
        steps_counted(steps_told, light[0]),
        phases(steps_told, light[0]),
        losses(bare, [*light, whole]),
        waits(bare, light),
        added(here, bare, light),
        window(here, whole, name),
    ]
    cells = [name, *(answer.cell for answer in answers)]
    figures = {what: value for answer in answers for what, value in answer.figures.items()}
    keep(here, directory.latest(Path(whole["out"])), script.stem)
    broken = [answer.cell for answer in answers if not answer.holds]
    return Row(f"runs {name}", "runs", cells, broken, figures)


@dataclass(frozen=True)
class Answer:
    """One cell, and whether what is promised holds."""

    said: str
    holds: bool
    figures: Json

    @property
    def cell(self) -> str:
        return self.said if self.holds else f"**{self.said}**"


def steps_counted(told: Json, seen: Json) -> Answer:
    """Every step, and no other."""
    counted, made = told["count"], len(seen["losses"])
    return Answer(f"{counted} of {made}", counted == made, {"counted": counted, "made": made})


def phases(told: Json, seen: Json) -> Answer:
    """The phases of a mean step against the script's own clock, where nothing of ours disturbed the step."""
    rows = records.read(directory.latest(Path(seen["out"]))).ranks[0].steps
    if rows is None:
        return Answer("no rows", False, {})
    ends_ns = np.asarray(seen["ends_ns"])
    begins_ns = np.concatenate([rows["begin_ns"][:1], ends_ns[:-1]])
    disturbed = rows[rows["flags"] & DISTURBED > 0]
    of_step = np.searchsorted(ends_ns, (disturbed["begin_ns"] + disturbed["end_ns"]) // 2)
    is_timed = ~np.isin(np.arange(len(ends_ns)), of_step)
    own_s = float((ends_ns - begins_ns)[is_timed].mean()) / 1e9
    off = sum(phase["seconds_per_step"] for phase in told["phases"].values()) / own_s - 1
    return Answer(f"{off:+.2%}", abs(off) <= PHASES_WITHIN, {"phases_off": off, "timed": int(is_timed.sum())})


def losses(bare: list[Json], watched: list[Json]) -> Answer:
    """Bit by bit the same, and those that were recorded are those that the script saw."""
    own = bare[0]["losses"]
    same = all(equal(own, each["losses"]) for each in watched)
    repeats = equal(own, bare[1]["losses"])
    rows = records.read(directory.latest(Path(watched[0]["out"]))).ranks[0].steps
    recorded = [] if rows is None else [float(loss) for loss in rows["loss"] if not math.isnan(loss)]
    said = "equal" if same else "differ" if repeats else "differ, as those of two bare runs do"
    figures = {"losses_equal": same, "losses_repeat": repeats, "losses_recorded": len(recorded)}
    return Answer(f"{said}; {len(recorded)} recorded", same or not repeats, figures)


def equal(some: Sequence[float], others: Sequence[float]) -> bool:
    """Whether losses are the same as far as both go; one that is no number equals another."""
    both = list(zip(some, others, strict=False))
    return bool(both) and all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in both)


def synchronisations(trace: Path) -> int:
    """How often the host waited for the device in a trace that the script took itself."""
    calls = measure(read(trace)).runtime_us.items()
    return sum(count for name, (count, _) in calls if "synchronize" in name.lower())


def waits(bare: list[Json], light: list[Json]) -> Answer:
    """As many as without perfdoctor."""
    without, with_it = (sorted(each["synchronisations"] for each in way) for way in (bare, light))
    said = f"{with_it[0]}, bare {without[0]}"
    figures = {"synchronisations": with_it, "synchronisations_bare": without}
    return Answer(said, with_it[0] <= without[-1], figures)


def added(here: Here, bare: list[Json], light: list[Json]) -> Answer:
    """CPU time of the training thread in a quiet step."""
    quiet = [[overhead.step_times(each)[0] for each in way] for way in (bare, light)]
    cost_us = statistics.median(after - before for before, after in zip(*quiet, strict=True))
    # A host that waits for a full queue spins: its time is the device's.
    noise_us = abs(quiet[0][0] - quiet[0][1])
    walls = [statistics.median(each["step_s"] for each in way) for way in (bare, light)]
    figures = {"added_us": cost_us, "noise_us": noise_us, "step_s": walls[0], "step_s_watched": walls[1]}
    said = f"{cost_us:+.0f} ± {noise_us:.0f} µs of {quiet[0][0]:,.0f}"
    # In a tiny run, most steps are among the first ones, of which many are looked at.
    return Answer(said, here.is_tiny or cost_us - noise_us <= ADDED_US, figures)


def window(here: Here, seen: Json, name: str) -> Answer:
    """Which windows there are, and whether they saw what the device did."""
    run = directory.latest(Path(seen["out"]))
    read_run = records.read(run)
    tried = outcomes(read_run)
    found = windows.of_lowest_rank(run, read_run.ranks)
    said = f"{', '.join(found) or 'none'}"
    figures: Json = {"windows": tried}
    if not found:
        why = "; ".join(dict.fromkeys(str(each["because"]) for each in tried)) or "none was tried"
        return Answer(f"none: {why}", here.is_tiny or bool(tried) or name == GRAPHED, figures)
    trace = measure(read(found.get("plain", next(iter(found.values())))))
    if here.is_tiny or trace.times is None:
        return Answer(said if here.is_tiny else f"{said}: no kernel", here.is_tiny, figures)
    # Not of the first: the device starts empty, as its profiler waited for it.
    judged = [step.times for step in trace.steps[1:]] or [trace.times]
    busy = sum(times.busy_us for times in judged) / sum(times.span_us for times in judged)
    against = beside_events(trace, seen["elapsed_ms"])
    said += f": {trace.device_events:,} events, busy {busy:.1%}, {against:.3f} of CUDA events"
    holds = name != ALWAYS_BUSY or (abs(busy - 1) <= BUSY_WITHIN and abs(against - 1) <= 3 * BUSY_WITHIN)
    return Answer(said, holds, {**figures, "busy": busy, "of_cuda_events": against})


def beside_events(trace: RankTrace, elapsed_ms: list[float]) -> float:
    """The device's busy time in a step of the window over the time between a usual step's CUDA events."""
    steps_us = [step.times.busy_us for step in trace.steps[1:]]
    usual_ms = statistics.median(elapsed_ms) if elapsed_ms else math.nan
    return statistics.fmean(steps_us) / 1e3 / usual_ms if steps_us else math.nan


def outcomes(run: records.RunRecords) -> list[Json]:
    """What became of each window."""
    events = (event for rank in run.ranks.values() for event in rank.of("window"))
    wanted = ("kind", "outcome", "because", "activities", "start_s", "stop_s", "export_s", "bytes")
    return [{name: event.get(name) for name in wanted} for event in events]


def keep(here: Here, out: Path, name: str) -> None:
    """Copy a run directory to where runs are kept."""
    if here.keep is not None:
        shutil.rmtree(here.keep / name, ignore_errors=True)
        shutil.copytree(out, here.keep / name)


# ---------------------------------------------------------------- parts 2, 4, 5 and 6: is the cause found


def cause(here: Here, name: str) -> Row:
    """A script whose cause is known: bare beside its cured twin, then watched."""
    truth = written(here, name)
    step_s, gain = by_hand(here, truth)
    steps = here.steps(step_s, WATCHED_S)
    arguments = ("--device", here.device, "--steps", str(steps))
    report = accuracy.watch(truth.script, *WINDOWS, keep=here.folder, arguments=arguments)
    keep(here, Path(report["run"]["path"]), name)
    return scored(accuracy.Outcome(truth, report, gain), step_s)


def again(here: Here, row: Json, run: Path) -> Row:
    """The same of a run that was kept: as it is judged by now, beside what was measured then."""
    truth = written(here, row["check"].partition(" ")[2])
    report = json.loads(accuracy.call([*overhead.PERFDOCTOR, "report", "--json", str(run)], here.folder))
    report["modelled"] = accuracy.modelled(run)
    return scored(accuracy.Outcome(truth, report, row["figures"]["measured"]), row["figures"]["step_s"])


def scored(outcome: accuracy.Outcome, step_s: float) -> Row:
    """What was said of a script, against what is known."""
    assert outcome.report is not None
    report, name = outcome.report, outcome.truth.script.stem
    report["findings"] = [each for each in report["findings"] if not is_about_the_lock(each)]
    found = [(each["id"], each["at"][:2], each["gain"], each["because"]) for each in report["findings"]]
    figures = {
        "step_s": step_s,
        "measured": outcome.measured,
        "predicted": outcome.predicted,
        "verdict": outcome.verdict,
        "confidence": report["bottleneck"]["confidence"],
        "verdict_right": outcome.verdict_right,
        "healthy": outcome.truth.healthy,
        "alarm": outcome.alarm,
        "cause_right": outcome.cause_right,
        "line_right": outcome.line_right,
        "step_error": outcome.step_error,
        "findings": found,
        "not_judged": report["not_judged"],
        "windows": outcomes(records.read(Path(report["run"]["path"]))),
    }
    return Row(f"cause {name}", "causes", outcome.cells(), list(missed(outcome)), figures)


def is_about_the_lock(finding: Json) -> bool:
    """Whether a finding is about the wait for the device, which other checks had: see --lanes of gpu.py."""
    return finding["id"] == "slow-start" and any(Path(at["file"]).name == COMMON.name for at in finding["at"])


def missed(outcome: accuracy.Outcome) -> Iterable[str]:
    """What was said wrongly of a script."""
    if outcome.truth.healthy:
        yield from ["an alarm"] if outcome.alarm else []
        return
    if not plants(outcome.measured):
        return
    rivals = next((tip.heading.rivals for tip in catalogue.tips() if tip.id == outcome.truth.finding), ())
    by_rival = outcome.first is not None and outcome.first["id"] in rivals  # the better one is named
    yield from [] if outcome.cause_right or by_rival else ["the cause is not first"]
    yield from ["the line is another one"] if outcome.line_right is False else []


def plants(gain: float | None) -> bool:
    """Whether curing a script's cause makes it noticeably faster on this device, as far as that is known."""
    return gain is None or gain >= PLANTS


def by_hand(here: Here, truth: accuracy.Truth) -> tuple[float, float | None]:
    """(Seconds of a step of the script, how many times faster its cured twin trains a sample), in turns."""
    words = ("--seconds", "0.3" if here.is_tiny else str(BY_HAND_S))
    if truth.twin is None:
        return run_script(here, truth.script, *words)["step_s"], None
    slow, quick = (run_script(here, each, *words) for each in (truth.script, truth.twin))
    each_s = [seen["step_s"] / seen["samples"] for seen in (slow, quick)]
    return slow["step_s"], each_s[0] / each_s[1]


# ---------------------------------------------------------------- part 3: do tweaks bring what a hand does


def tweak(here: Here, words: str, name: str) -> Row:
    """`perfdoctor try` against the same change made by hand."""
    truth = written(here, name)
    known = here.earlier.get(f"cause {name}", {}).get("figures", {})
    step_s, gain = (known["step_s"], known["measured"]) if known else by_hand(here, truth)
    if words in OTHER_THAN_BY_HAND:
        gain = None
    script = [str(truth.script), "--device", here.device, "--steps", str(here.steps(step_s, 12.0))]
    limits = ["--seconds", "10" if here.is_tiny else str(TRIED_S), "--yes", "--json"]
    perfdoctor = [sys.executable, "-m", "perfdoctor", "try"]
    command = [*perfdoctor, *words.split(), *limits, "--out", str(here.folder / "trials"), "--", *script]
    with device_alone():
        trial = json.loads(accuracy.call(command, here.folder))
    variant = trial["variants"][0]
    applied, alone = places(variant, "applied"), places(variant, "left_alone")
    agrees = agreement(variant["speedup"], gain)
    said = variant["verdict"] if variant["verdict"] != "failed" else f"failed: {variant['because'][:80]}"
    # On a CPU, most tweaks have nothing to change.
    holds = here.is_tiny or (bool(applied) and said in ("faster", "slower", "no difference seen"))
    cells = [
        words,
        name,
        said if holds else f"**{said}**",
        "; ".join(applied) or f"nothing: {'; '.join(alone)[:80]}",
        tried._range(variant["speedup"]),
        "-" if gain is None else f"{gain:.2f}" if agrees is not False else f"**{gain:.2f}**",
        "-" if variant["pays_off_steps"] is None else f"{variant['pays_off_steps']:,} steps",
        memory(trial, variant),
    ]
    figures = {name: variant[name] for name in ("verdict", "because", "speedup", "predicted", "measured")}
    figures |= {"by_hand": gain, "agrees": agrees, "seconds": trial["seconds"], "notes": trial["notes"]}
    figures |= {"applied": applied, "left_alone": alone, "loss": variant["loss"]}
    broken = [] if holds else [said]
    broken += ["the trial's interval does not hold the gain by hand"] if agrees is False else []
    return Row(f"tweak {words}", "tweaks", cells, [] if here.is_tiny else broken, figures)


@contextmanager
def device_alone() -> Iterator[None]:
    """The device for what a trial starts: its two sides live at once, so that none can wait for the other."""
    path = os.environ.pop(LOCK, os.devnull)
    with open(path, "w", encoding="utf-8") as file:
        if path != os.devnull:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def places(variant: Json, kind: str) -> list[str]:
    """Where a tweak changed something, or why not, each once."""
    told = (place for execution in variant["executions"] for place in execution[kind])
    said = (place["what"] if kind == "applied" else str(place["because"]) for place in told)
    return list(dict.fromkeys(said))[:3]


def agreement(speedup: Json | None, gain: float | None) -> bool | None:
    """Whether a trial's interval holds the gain of the change made by hand; None where either is missing."""
    if speedup is None or gain is None:
        return None
    low, high = speedup["low"] * (1 - BY_HAND_WITHIN), speedup["high"] * (1 + BY_HAND_WITHIN)
    return bool(low <= gain <= high)


def memory(trial: Json, variant: Json) -> str:
    """The device's memory without and with the tweak."""
    sizes = [side["measured"]["device_bytes"] for side in (trial["original"], variant)]
    return "-" if None in sizes else " -> ".join(f"{size / 2**30:.2f} GiB" for size in sizes)


# ---------------------------------------------------------------- all of them

RUNS = (
    "plain", "amp", "compiled", "cuda_graph", "workers", "ddp", "channels_last", "accumulation", "gan",
    "trainer",
)  # fmt: skip
CAUSES = (
    "device_sync_item", "no_mixed_precision", "interpreter_bound", "pageable_memory_copies",
    "healthy_products", "tf32_off", "uncompiled_model", "tensors_created_on_host", "materialised_attention",
    "blocking_copies", "healthy_transformer", "unfused_optimizer", "round_trips", "cpu_fallback",
    "too_few_workers",
)  # fmt: skip
FURTHER_CAUSES = (
    "healthy_convolutions", "channels_first_convolutions", "untuned_convolutions", "healthy_loader",
    "device_sync_mask", "device_sync_cpu", "device_sync_synchronize", "float_batches_over_the_bus",
    "many_small_copies", "misaligned_shapes", "slow_kernel", "accidental_float64", "needless_recomputation",
    "gradients_in_validation", "padded_batches", "small_batch",
)  # fmt: skip
OTHERS = (  # longer ones, named after what they train, so that a name tells nothing
    "leaf_classifier", "noise_unet", "two_towers", "masked_words", "audio_events", "box_finder",
    "story_writer", "speech_frames",
)  # fmt: skip
FURTHER_OTHERS = (  # the same, by two more authors
    "bird_calls", "click_ranker", "paper_topics", "harbour_boats", "review_stars", "grid_load",
    "sphere_forecast", "bilingual_pretraining", "spoken_emotion", "solid_shapes", "retinal_vessels",
    "latent_flow",
)  # fmt: skip
TWEAKS = {  # words of `perfdoctor try`, and the script whose cured twin makes the same change by hand
    "--amp": "no_mixed_precision",
    "--tf32": "tf32_off",
    "--compile": "uncompiled_model",
    "--compile --compile-mode reduce-overhead": "interpreter_bound",
    "--pin-memory --non-blocking": "pageable_memory_copies",
    "--channels-last": "channels_first_convolutions",
    "--cudnn-benchmark": "untuned_convolutions",
    "--fused-optimizer": "unfused_optimizer",
    "--non-blocking": "blocking_copies",
    "--workers 8": "too_few_workers",
    "--float32": "accidental_float64",
    "--no-grad-eval": "gradients_in_validation",
    "--batch-size 64": "small_batch",
    "--amp --amp-dtype fp16": "tf32_off",
}
OTHER_THAN_BY_HAND = ("--amp --amp-dtype fp16",)  # the twin makes another change
CHECKS = (
    Check("machine", 1, "facts", machine, 60.0),
    *(Check(f"runs {name}", 1, "runs", partial(runs, name=name), 120.0) for name in RUNS),
    Check("samples", 1, "facts", samples, 60.0),
    *(Check(f"cause {name}", 2, "causes", partial(cause, name=name), 90.0) for name in CAUSES),
    *(
        Check(f"tweak {words}", 3, "tweaks", partial(tweak, words=words, name=name), 120.0)
        for words, name in TWEAKS.items()
    ),
    *(Check(f"cause {name}", 4, "causes", partial(cause, name=name), 90.0) for name in FURTHER_CAUSES),
    *(Check(f"cause {name}", 5, "causes", partial(cause, name=name), 90.0) for name in OTHERS),
    *(Check(f"cause {name}", 6, "causes", partial(cause, name=name), 90.0) for name in FURTHER_OTHERS),
)


def main() -> int:
    """Run the check that is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=[check.name for check in CHECKS], metavar="NAME")
    parser.add_argument("--device", choices=["cuda", "cpu"], required=True)
    parser.add_argument("--row", type=Path, required=True, help="where the row goes")
    parser.add_argument("--earlier", type=Path, help="the rows so far")
    parser.add_argument("--keep", type=Path, help="where runs are kept")
    args = parser.parse_args()
    check = next(check for check in CHECKS if check.name == args.name)
    earlier = json.loads(args.earlier.read_text())["rows"] if args.earlier and args.earlier.exists() else []
    with tempfile.TemporaryDirectory(prefix="perfdoctor-gpu-") as folder:
        by_check = {row["check"]: row for row in earlier}
        keep_in = args.keep.resolve() if args.keep else None
        here = Here(args.device, Path(folder), keep_in, by_check)
        try:
            row = check.run(here)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"{error.stderr[-2000:]}\n{accuracy.last_words(error)}\n")
            return 1
    args.row.write_text(json.dumps(asdict(row), default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main())
