"""How every note is worded: a sentence for each slug, without a full stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Formatter
from typing import Any

from perfdoctor.model.note import Remark
from perfdoctor.model.ranks import rank_list
from perfdoctor.render import text

SENTENCES = {
    # of a run
    "busy-machine": "other programs kept {busy:.1f} of {cores:g} cores busy: times and gains will differ on"
    " an idle machine",
    "shown-rank": "findings and phases are for rank {rank}",
    "rival": '"{title}" ({gain:.2f}x likely) is an alternative to "{better}": choose one',
    "small-gains": "small gains: {gains}",
    "wide-ranges": "wide ranges (finding {ranks}): hardly any gain of this kind has been measured yet",
    # of the files of a run
    "no-run-json": "run.json cannot be read: command and exit status are unknown",
    "unread-file": "{file} cannot be read: {why}",
    "file-left-out": "{file} {why} and was left out",
    "cut-short": "{file} is cut short: its end is missing",
    "broken-lines": "{file}: {count:n broken line} left out",
    "too-long": "{file} is longer than {lines} lines: the rest was left out",
    "several-processes": "{count} processes of rank {rank} trained: the one with the most steps is shown",
    "started-again": "the launcher started the ranks {times} times: attempt {shown} is shown;"
    " steps of the others: {others:attempts}",
    "unread-window": "a window of torch.profiler could not be read: {why}",
    # of the ranks of a job
    "recorded-nothing": "{ranks:ranks} started but recorded nothing",
    "ranks-elsewhere": "{ranks:ranks} may have recorded elsewhere: {join}",
    "nodes-not-here": "the folder of {nodes:nodes} is not here ({ranks:ranks}): {join}",
    "different-versions": "the ranks have different versions of {what}: {versions:versions}",
    "unequal-steps": "the ranks took {low:,} to {high:,} steps, {ranks:ranks} the fewest",
    "unended-runs": "still running, or lost: {names:names}",
    "unread-folder": "{error}: its ranks are missing here",
    "part-of-job": "{ranks:ranks} of {world:,}; the report of all: perfdoctor report {folder}",
    "earlier-start": "{folder}: {ranks:ranks} of an earlier start of the job left out",
    "of-folder": "{folder}: {problem:note}",
    "more-problems": "{count:,} more problems with its files",
    "one-rank-recorded": "only one of {world} ranks recorded its gradient syncs:"
    " wait and transfer time cannot be told apart",
    "no-common-collective": "no collective was found on every rank: wait and transfer time cannot be told"
    " apart",
    "compared-in-groups": "no collective was found on every rank: each rank is compared with its own group",
    "too-little-recorded": "too little was recorded of {ranks:ranks} to compare it with the others",
    "not-compared": "{share:.0%} of the time in collectives could not be compared between ranks:"
    " it counts as transfer time",
    # of a loader
    "batch-takes": "{part} takes {share:.0%} of the time to prepare a batch",
    "batch-in-worker-takes": "{part} takes {share:.0%} of the time to prepare a batch in a worker",
    "reading-blocks": "{share:.0%} of reading neither computes nor waits for a core:"
    " it waits for a disk, a network or a lock",
    "loading-still-rises": "loading still speeds up at {workers:n worker}: more may be faster",
    "transfer-costs-more": "transferring batches costs more than workers save; but workers load while the"
    " script computes",
    "collating-limits": "collating and transfer limit loading: without reading it would not be much faster",
    "cores-limit": "{busy:.1f} of {cores:g} usable cores are busy: the cores limit loading",
    "measurement-ended": "the measurement was {outcome}: these are the results so far",
    "workers-repeat": "{workers:n worker} give the same samples, each all of them: the dataset has to share"
    " itself out by get_worker_info(); until it does, more than 1 worker only repeats data",
    "failed-with": "with {workers:workers}: {failure:note}",
    "no-batch": "no batch arrived: the dataset is empty, smaller than one batch, or already consumed",
    "iterated-once": "the dataset can be iterated only once",
    "loading-raised": "{error}",
    "loading-raised-at": "{error} ({file}:{line})",
    "no-time-for": "time ran out before {workers:n worker} could be measured: give more with --seconds",
    "no-memory-for": "{workers:n worker} were not tried: they would take more memory than is free",
    "no-shared-memory-for": "{workers:n worker} were not tried: their batches would not fit into /dev/shm",
    "no-gain-before": "{workers:n worker} were not tried: the last two settings brought no gain",
    "script-exited": "ended early, the script exited with status {status}: ignore its messages about that",
    "cold-only-once": "an iterable dataset yields its first samples to every setting: only one setting can"
    " be cold",
    "no-cold-samples": "no cold samples were left for {workers:list} workers",
    "cores-held": "other programs held the cores for up to {share:.0%} of a worker's time: measure again on"
    " an idle machine",
    "loading-varies": "the measurements vary by up to {share:.0%}: the machine was busy, or batches differ;"
    " measure again, longer (--seconds)",
    "one-rank-alone": "one of {ranks} ranks was measured, alone: in training each has {cores} of the cores",
    "one-of-several-loaders": "the script had built {built} DataLoaders: this is number {number}; another"
    " one: --number N or --at FILE:LINE",
    "no-batch-measured": "no batch was measured",
    "no-loader": "the script trains without a DataLoader: it updated its model before it iterated one",
    "failed-before-loader": "the script ended with status {status:.0f} before its loader could be measured",
    "never-iterated": "the script never iterated a torch DataLoader",
    "never-iterated-with-gradients": "the script never iterated a torch DataLoader while gradients were on,"
    " as training does ({built})",
    "ended-before-loader": "the script ended before it built the DataLoader to measure ({built})",
    # of traces
    "judged-file": "verdict and findings are for {name}, {why}",
    "warm-up-step": "{step} took much longer than the steps after it and was left out: it warms up",
    "no-steps-marked": "the trace has no step marks (profiler.step()): shares are of the whole trace",
    "no-device-events": "no device event was recorded: this is a trace of the CPU",
    "unknown-device": "the peak rates of this device are not known: no shares of its peak",
    "few-launches": "most launches are not in the trace: causes of idle time are unknown",
    "no-shapes": "no shapes were recorded: no sizes of matrix products and no operations per second",
    # of a link
    "too-few-sizes": "too few sizes were measured to tell latency from bandwidth: give it more time"
    " (--seconds 60)",
    "only-latency": "every size took about as long: only latency counts, and only fewer all-reduces help"
    " (no_sync)",
    "slow-for-its-card": "the ranks reach {share:percent} of what {card} can carry: see whether they use it"
    " ({variable}={interface}), and what else does",
    "latency-in-buckets": "latency is {share:percent} of the time that one of DDP's buckets of 25 MB takes:"
    " use larger buckets, --ddp-bucket-mb {megabytes}",
    "exchange-takes": "synchronising {bytes:size} of gradients takes {seconds:seconds}: if a backward pass"
    " takes less, synchronise less often (perfdoctor try --no-sync) or send fewer bytes"
    " (--ddp-compress bf16)",
    "ended-early": "the measurement ended early: {why}",
    "size-cut": "{bytes:size} was left out: it would have taken longer than the time left; raise --seconds",
    "one-host-loopback": "all ranks are on this host: they communicate over its loopback interface, not over"
    " a network",
    "one-host-devices": "all ranks are on this host: they communicate over the links between its devices, not"
    " over a network",
    "no-line": "for half of the sizes, latency plus bytes over bandwidth is off by {error:percent} or more:"
    " the algorithm changes with the size, or the machine was busy",
}

SHOWN = 6  # names of one kind; more are counted
NUMBER = "n "  # of what follows: `{count:n line}` is "1 line", or "2 lines"


def _nodes(numbers: Sequence[int]) -> str:
    more = " ..." if len(numbers) > SHOWN else ""
    return f"node{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:SHOWN]))}{more}"


def _versions(ranks: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{version} ({rank_list(own)})" for version, own in sorted(ranks.items())[:SHOWN])


def _attempts(steps: Mapping[int, int]) -> str:
    return ", ".join(f"{count:,} in attempt {number}" for number, count in steps.items())


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _workers(counts: Sequence[int]) -> str:
    return f"{_list(counts)} worker{'' if list(counts) == [1] else 's'}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


FORMATS: dict[str, Callable[[Any], str]] = {
    "percent": text.percent,
    "seconds": text.seconds,
    "size": text.size,
    "times": text.times,
    "ranks": rank_list,
    "nodes": _nodes,
    "versions": _versions,
    "attempts": _attempts,
    "names": _names,
    "list": _list,
    "workers": _workers,
    "note": lambda note: worded(note),
}


class _Sentence(Formatter):
    """Values in the words of render/text.py where a sentence asks for that: `{share:percent}`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value as its place in the sentence asks for it."""
        if format_spec.startswith(NUMBER):
            return f"{value} {format_spec.removeprefix(NUMBER)}{'' if value == 1 else 's'}"
        known = FORMATS.get(format_spec)
        return known(value) if known is not None else str(super().format_field(value, format_spec))


def worded(note: Remark) -> str:
    """A note as a sentence."""
    return note if isinstance(note, str) else _Sentence().vformat(SENTENCES[note.slug], (), note.values)


def all_worded(notes: Iterable[Remark]) -> list[str]:
    """Notes as sentences."""
    return [worded(note) for note in notes]
