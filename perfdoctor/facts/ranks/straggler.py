"""The rank that the others wait for, and what it does longer than they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from statistics import mean, median

import numpy as np

from perfdoctor.facts.ranks.rank_work import InputSize, Lines, is_alone, slower_lines, times_larger
from perfdoctor.facts.ranks.skew import SPENT, Skew, steady_mean
from perfdoctor.facts.steps.boundaries import Bools, Floats, Ints
from perfdoctor.model.concluded import CLASS_OF_PHASE, Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase
from perfdoctor.model.ranks import RankFacts, Straggler, held_against

WORDS: Mapping[Phase, str] = {
    Phase.DATA_WAIT: "waiting for batches",
    Phase.HOST_TO_DEVICE: "copies to its device",
    Phase.FORWARD: "the forward pass",
    Phase.BACKWARD: "the backward pass",
    Phase.OPTIMIZER: "the optimizer",
    Phase.VALIDATION: "validation",
    Phase.CHECKPOINT: "checkpoints",
    Phase.OTHER: "other Python",
}
MOST = 0.5  # of all waiting is for it, beyond its equal share: below it, ranks take turns at being late
PARTS = 10  # of the run, in each of which its lateness is looked at: what disturbs a machine comes in bursts
NOTICEABLE = 0.01  # of the step; a rank that costs less than that is not late
CERTAIN = 3.0  # standard errors
EXPLAINS = 0.5  # of the excess: what is different by less is not named as its reason
DIFFERENT = 0.1  # more than the median rank has, relative to it
FULL = 0.05  # of a node's memory left: below it, pages of files are read again and again
ON_CORES = (Bottleneck.COMPUTE, Bottleneck.HOST)


@dataclass(frozen=True)
class Habits:
    """What else is known of a rank. Seconds are means per step."""

    node: str
    mean_s: float
    cpu_s: float | None  # of the whole process
    samples: float | None  # per step
    delay: float | None  # seconds its threads were ready but had no core, per second of time
    data_cores: float | None  # that its loader workers keep busy
    available: float | None = None  # the least memory that was left on its node, as a share of it
    strangers: float = 0.0  # share of its node's usable cores that others than ranks keep busy
    input_size: InputSize | None = None  # of what its model is called with
    lines: Lines = field(default_factory=dict)

    def at_work(self, waiting_s: float) -> Habits:
        """The delay per second in which it did not wait for other ranks: who waits needs no core.

        It is that of all threads, for a step waits for others than the one that trains: autograd computes the
        backward of a device in a thread of its own, and a product ends with the last thread of the pool. But
        threads that lack a core at the same time, as those of a pool do that spins, hold it up only once.
        """
        if self.delay is None:
            return self
        at_work = 1.0 - waiting_s / self.mean_s if waiting_s < self.mean_s else 1.0
        return replace(self, delay=min(1.0, self.delay / at_work))


@dataclass(frozen=True)
class _Unit:
    """A rank, or all ranks of a node: what the others may wait for as one."""

    rows: list[int]
    rivals: int  # ranks, or nodes, that it is one of
    caused: float  # share of all waiting
    last: Bools  # (E,) exchanges that it came to last
    ahead_s: Floats  # (E,) how much sooner all would go on without it, had they not waited for the next one

    @property
    def saved_s(self) -> float:
        """The same, of the mean exchange."""
        return float(self.ahead_s.mean())

    def is_late(self, least_s: float) -> bool:
        """Whether most waiting is for it, and more than by chance."""
        parts_s = [part.mean() for part in np.array_split(self.ahead_s, min(PARTS, len(self.ahead_s)))]
        error_s = float(np.std(parts_s, ddof=1)) / len(parts_s) ** 0.5
        most = MOST + (1 - MOST) / self.rivals
        return self.caused >= most and self.saved_s > max(least_s, CERTAIN * error_s)


def find(skew: Skew, habits: Sequence[Habits]) -> Straggler | None:
    """Who is late as a habit, or None. `habits` are in the order of the skew's rows."""
    nodes: dict[str, list[int]] = {}
    for row, habit in enumerate(habits):
        nodes.setdefault(habit.node, []).append(row)
    groups = [[row] for row in range(len(skew.ranks))], list(nodes.values())
    units = [_most_awaited(skew, group) for group in groups if len(group) > 1]
    least_s = NOTICEABLE * float(np.median([habit.mean_s for habit in habits])) / skew.per_step
    unit = next((unit for unit in units if unit.is_late(least_s)), None)
    if unit is None:
        return None
    caused_s = skew.waiting_s.sum(axis=0)
    row = max(unit.rows, key=lambda row: float(caused_s[skew.last == row].sum()))
    others = [other for other in range(len(skew.ranks)) if other not in unit.rows]
    behind_s = np.median(skew.blocked_s[others], axis=0) - skew.blocked_s[row]
    excess_s = _excess(skew, unit, row, others)
    cause, phase = _cause(excess_s)
    place = SPENT.index(phase)
    waited_s = skew.waiting_s.mean(axis=1) * skew.per_step
    habits_at_work = [habit.at_work(float(waited_s[row])) for row, habit in enumerate(habits)]
    why = _why(phase, float(excess_s[place]), row, others, habits_at_work)
    crowded = _is_crowded(phase, float(excess_s[place]), _lacking_s(row, others, habits_at_work))
    own_lines, other_lines = habits[row].lines, [habits[one].lines for one in others]
    slower = () if crowded else slower_lines(phase, float(excess_s[place]), own_lines, other_lines)
    whole_node = len(unit.rows) > 1
    if whole_node:
        why = f"all {len(unit.rows)} ranks of its node come late; {why}"
    return Straggler(
        rank=skew.ranks[row],
        ranks=len(skew.ranks),
        matched=skew.count,
        node=habits[row].node,
        last=float(unit.last.mean()),
        caused=unit.caused,
        wait=0.0,
        behind_s=steady_mean(behind_s) * skew.per_step,
        cause=cause,
        phase=phase,
        excess_s=float(excess_s[place]),
        why=why,
        saved_s=unit.saved_s * skew.per_step,
        whole_node=whole_node,
        crowded=crowded,
        strangers=habits[row].strangers,
        more_data=_more_data(skew, row, others, habits) if cause is Bottleneck.COMPUTE else None,
        lines=slower,
        alone=tuple(at for at in slower if is_alone(phase, at, own_lines, other_lines)),
    )


def among(straggler: Straggler, ranks: Sequence[RankFacts], world: int, nodes: int) -> Straggler:
    """The same with what it costs the others of the job."""
    others = [rank for rank in ranks if rank.rank != straggler.rank and rank.mean_s > 0]
    if not others:
        return straggler
    saved_s = straggler.saved_s
    if straggler.more_data is not None and saved_s is not None:
        saved_s = min(saved_s, _over_the_mean_s(straggler, ranks))
    return replace(
        straggler,
        ranks=world,
        nodes=nodes,
        saved_s=saved_s,
        wait=min(1.0, median(rank.waiting_s / rank.mean_s for rank in others)),
        step_s=median(rank.mean_s for rank in others),
    )


def _over_the_mean_s(straggler: Straggler, ranks: Sequence[RankFacts]) -> float:
    """How much longer than the mean rank it is at work: data that it need not work on, others must."""
    at_work_s = {rank.rank: rank.mean_s - rank.waiting_s for rank in ranks if rank.mean_s > 0}
    return max(0.0, at_work_s.get(straggler.rank, 0.0) - mean(at_work_s.values()))


def _most_awaited(skew: Skew, groups: list[list[int]]) -> _Unit:
    """Of several groups of ranks, the one that the others wait for most."""
    first = np.array([skew.blocked_s[rows].min(axis=0) for rows in groups])  # when the last one of each came
    last = first.argmin(axis=0)
    waited_s = skew.waiting_s.sum(axis=0)
    caused_s = np.bincount(last, weights=waited_s, minlength=len(groups))
    late = int(caused_s.argmax())
    last_two = np.partition(first, 1, axis=0)[:2]
    gap_s = last_two[1] - last_two[0]
    gap_by_group_s = np.bincount(last, weights=gap_s, minlength=len(groups)) / len(gap_s)
    usual_s = float(np.median(np.delete(gap_by_group_s, late)))  # coming last by chance is nobody's fault
    is_last = last == late
    return _Unit(
        rows=groups[late],
        rivals=len(groups),
        caused=float(caused_s[late] / waited_s.sum()) if waited_s.sum() > 0 else 0.0,
        last=is_last,
        ahead_s=np.where(is_last, gap_s, -gap_s if len(groups) == 2 else 0.0)
        - (0.0 if len(groups) == 2 else usual_s),
    )


def _excess(skew: Skew, unit: _Unit, row: int, others: list[int]) -> Floats:
    """(phases,) by how much longer the rank takes than the median of the others, per step.

    Over the steps in which it came last: a rank that is late now and then is like the others in between.
    """
    steps: Ints = np.unique(skew.step[unit.last])
    usual_s = np.nan_to_num(np.nanmedian(skew.spent_s[others][:, steps], axis=0)).mean(axis=0)
    own_s = np.nan_to_num(skew.spent_s[row, steps]).mean(axis=0)
    share = len(steps) / max(1, len(np.unique(skew.step)))
    return np.asarray(own_s - usual_s, np.float64) * share


def _cause(excess_s: Floats) -> tuple[Bottleneck, Phase]:
    """The class that takes longest in excess, and its phase that does."""
    classes = dict.fromkeys(Bottleneck, 0.0)
    for phase, value_s in zip(SPENT, excess_s, strict=True):
        classes[CLASS_OF_PHASE[phase]] += float(value_s)
    cause = max(classes, key=lambda kind: classes[kind])
    phases = [phase for phase in SPENT if CLASS_OF_PHASE[phase] is cause] or list(SPENT)
    return cause, max(phases, key=lambda phase: float(excess_s[SPENT.index(phase)]))


def waits(skew: Skew, rank: int) -> dict[Bottleneck, float]:
    """A rank's waiting, in seconds per step, by the class of what those that came last did longer."""
    row = skew.ranks.index(rank)
    waiting_s, last = skew.waiting_s[row], skew.last
    charged = dict.fromkeys(Bottleneck, 0.0)
    for other in np.unique(last[last != row]):
        is_last = last == other
        longer_s = np.nan_to_num(
            skew.spent_s[other, skew.step[is_last]] - skew.spent_s[row, skew.step[is_last]]
        )
        longer_s = np.maximum(longer_s.mean(axis=0), 0.0)
        waited_s = float(waiting_s[is_last].sum()) / skew.count * skew.per_step
        if longer_s.sum() <= 0:
            charged[Bottleneck.HOST] += waited_s  # nothing that was timed: Python beside the steps
            continue
        for phase, value_s in zip(SPENT, longer_s / longer_s.sum(), strict=True):
            charged[CLASS_OF_PHASE[phase]] += float(value_s) * waited_s
    return {kind: value_s for kind, value_s in charged.items() if value_s > 0}


def _lacking_s(row: int, others: list[int], habits: Sequence[Habits]) -> float:
    """How much longer a rank's threads wait for a core than the median rank's, per step."""
    return habits[row].mean_s * (_more(habits, row, others, "delay") or 0.0)


def _is_crowded(phase: Phase, excess_s: float, lacking_s: float) -> bool:
    """Whether that explains what it takes longer."""
    return excess_s > 0 and CLASS_OF_PHASE[phase] in ON_CORES and lacking_s >= EXPLAINS * excess_s


def _why(phase: Phase, excess_s: float, row: int, others: list[int], habits: Sequence[Habits]) -> str:
    """What it does longer, and what else is different."""
    usual_rank = held_against(len(others))
    if excess_s <= 0:
        return f"none of its phases takes longer than {usual_rank}'s"
    reasons = [f"it spends {excess_s * 1e3:.2f} ms a step longer than {usual_rank} on {WORDS[phase]}"]
    habit, cause = habits[row], CLASS_OF_PHASE[phase]
    lacking_s = _lacking_s(row, others, habits)
    if _is_crowded(phase, excess_s, lacking_s):
        reasons.append(
            f"others have its cores: for {lacking_s * 1e3:.2f} ms of each step its threads wait for one"
        )
    elif cause is Bottleneck.COMPUTE:
        reasons += _computing(row, others, habits, excess_s)
    if cause is Bottleneck.DATA and habit.data_cores is not None:
        usual = _usual(habits, others, "data_cores") or 0.0
        reasons.append(
            f"its loader workers keep {habit.data_cores:.1f} cores busy, {usual_rank}'s {usual:.1f}"
        )
    if habit.available is not None and habit.available < FULL:
        reasons.append(f"its node has {habit.available:.0%} of its memory left")
    return "; ".join(reasons)


def _computing(row: int, others: list[int], habits: Sequence[Habits], excess_s: float) -> list[str]:
    """Why computing may take longer: more samples, more CPU time for as many, or cores that are not there."""
    habit, usual_rank = habits[row], held_against(len(others))
    if (times := _more_samples(row, others, habits)) is not None:
        samples = habit.samples or 0.0
        return [f"its steps hold {samples:.4g} samples, {usual_rank}'s {samples / times:.4g}"]
    if (times := _times_larger(row, others, habits)) is not None:
        return [f"its model is called with {times:.1f} times as much as {usual_rank}'s, in as many samples"]
    longer_s = _more(habits, row, others, "cpu_s")
    if longer_s is None or habit.cpu_s is None:
        return []
    against = f"{habit.cpu_s * 1e3:.2f} against {(habit.cpu_s - longer_s) * 1e3:.2f} ms of CPU time a step"
    if longer_s >= min(EXPLAINS * excess_s, DIFFERENT * (habit.cpu_s - longer_s)):
        return [f"it computes more for as many samples, or on slower cores ({against})"]
    lacked_s = (habit.delay or 0.0) * habit.mean_s
    if lacked_s >= excess_s:  # as the others' do, on a machine where all cores are taken: so it may be that
        return [f"it needs no more CPU time for it ({against}): others may have its cores"]
    return [f"it needs no more CPU time for it ({against}): it waits for something"]


def _more_data(skew: Skew, row: int, others: list[int], habits: Sequence[Habits]) -> float | None:
    """How many times as much its model is given as the usual rank's.

    None where it is not more, or cannot take it so much longer: no more than its square does, as attention.
    """
    times = _more_samples(row, others, habits) or _times_larger(row, others, habits)
    if times is None or times**2 - 1 < EXPLAINS * (_times_longer(skew, row, others) - 1):
        return None
    return times


def _times_longer(skew: Skew, row: int, others: list[int]) -> float:
    """How many times as long as the usual rank it computes."""
    computing = [place for place, phase in enumerate(SPENT) if CLASS_OF_PHASE[phase] is Bottleneck.COMPUTE]
    all_s = np.nan_to_num(skew.spent_s[:, :, computing]).sum(axis=(1, 2), dtype=np.float64)
    usual_s = float(np.median(all_s[others]))
    return float(all_s[row]) / usual_s if usual_s > 0 else 1.0


def _more_samples(row: int, others: list[int], habits: Sequence[Habits]) -> float | None:
    samples, usual = habits[row].samples, _usual(habits, others, "samples")
    return samples / usual if samples and usual and samples > usual * (1 + DIFFERENT) else None


def _times_larger(row: int, others: list[int], habits: Sequence[Habits]) -> float | None:
    return times_larger(habits[row].input_size, [habits[other].input_size for other in others])


def _usual(habits: Sequence[Habits], others: list[int], name: str) -> float | None:
    values = [value for row in others if (value := getattr(habits[row], name)) is not None]
    return float(np.median(values)) if values else None


def _more(habits: Sequence[Habits], row: int, others: list[int], name: str) -> float | None:
    """How much more of something the rank has than the median of the others."""
    value, usual = getattr(habits[row], name), _usual(habits, others, name)
    return None if value is None or usual is None else float(value - usual)
