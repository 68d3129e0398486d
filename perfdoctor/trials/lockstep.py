"""Trainings that are alive at once and take turns of about a second, while all others of the round rest.

What slows a machine rarely changes within two seconds, and what a script takes to start is paid once for
many turns. All start at once and train until each has settled; then each rests, with its loader workers and
ranks stopped, but for its turn. A turn begins with a step that is not counted, for it was cut by the rest,
and with a tenth of a turn in which caches and queues become as they were; then come as many whole steps in
each turn, whole epochs where an epoch is short, so that all train on the same stretch of the data.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from pathlib import Path

from perfdoctor.facts.steps import boundaries
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import Execution, ExecutionEnd, Variant
from perfdoctor.runs import records as recorded
from perfdoctor.runs.types import RunRecords
from perfdoctor.trials import measure, settling
from perfdoctor.trials.execution import LEAST_BYTES, CommandRun, Executor, StopRule, first_step_s
from perfdoctor.trials.measure import Turn
from perfdoctor.trials.plan import LEAST_TURNS, PATIENCE, SLACK_S, TrialPlan
from perfdoctor.trials.sandbox import leftovers, memory
from perfdoctor.trials.sandbox.guarded import guarded
from perfdoctor.trials.sandbox.memory import PeakMemory
from perfdoctor.watch.live import LiveCommand, live, suspended_with
from perfdoctor.watch.samplers.progress import ProgressReader
from perfdoctor.wire import names
from perfdoctor.wire.turns import DeviceTurns

SETTLES = 0.1  # of a turn
POLL_S, LONGEST_POLL_S = 0.0005, 0.02  # how closely the end of a turn is watched: a step or two
ASLEEP_S = 2.0  # between two looks at a clock: we were stopped, or the machine slept, and the turn is void
LEAVING_S = 5.0  # for scripts to end by themselves: their memory and their last losses are told then
MEMORY_SHARE = 0.9  # of what is free, that all may take together
DEVICE_CONTEXT_BYTES = 1 << 30  # of a device, beside tensors: the context, and libraries
KEPT = 1.25  # times the tensors' bytes is what an allocator holds: a guess, fragments vary


class Apart(Exception):
    """They cannot take turns here; says why, in half a sentence."""


def obstacle(
    calibration: Execution, variants: Sequence[Variant], abreast: int, most_held: float = 1.0
) -> str | None:
    """Why so many variants cannot be alive beside the original that was looked at, or None where they can.

    `most_held`: how many times the samples of the original's step one of theirs holds: on a device nearly all
    memory grows with them.
    """
    sides = abreast + 1
    if not Path("/proc/self/environ").exists():
        return "this system does not show which execution a process belongs to"
    if any(variant.ranks is not None for variant in variants):
        return "comparing rank counts needs all cores at once"
    if calibration.device_bytes and calibration.ranks > 1:
        return "ranks on devices wait for each other, so they cannot be paused"
    taken_bytes = calibration.device_bytes and KEPT * calibration.device_bytes + DEVICE_CONTEXT_BYTES
    on_device = (1 + abreast * max(1.0, most_held)) * taken_bytes if taken_bytes else None
    on_host = sides * calibration.host_bytes if calibration.host_bytes else None
    return _no_room(sides, on_device, memory.free_device_bytes, "the device's memory") or _no_room(
        sides, on_host, memory.free_bytes, "memory"
    )


def _no_room(sides: int, taken_bytes: float | None, free: Callable[[], int | None], where: str) -> str | None:
    """Why so many do not fit, or None where they do, or where one takes nothing that was seen."""
    if not taken_bytes:
        return None
    free_bytes = free()
    if free_bytes is None:
        return f"free space in {where} is unknown"
    if taken_bytes <= MEMORY_SHARE * free_bytes:
        return None
    return f"{sides} take {taken_bytes / 1e9:.1f} GB, and {free_bytes / 1e9:.1f} GB of {where} are free"


def spare_updates(records: RunRecords) -> int:
    """Updates of the first optimizer within which a step ends that was under way: as many as it has.

    0 where each ends a step. With several optimizers turns begin and end by the first, and steps by the
    last: as a turn's last update of the first one is made, its last step is not over.
    """
    found = (boundaries.find(rank.steps) for _, rank in sorted(records.ranks.items()))
    several = next((steps.per_step > 1.0 for steps in found if steps is not None), False)
    return round(measure.updates_per_step(records)) if several else 0


@dataclass
class _LiveTraining:
    """One of them: its command, how far it is, and its turns so far."""

    variant: Variant
    living: LiveCommand
    warm_up: int  # updates
    turn: int  # updates that are measured in a turn
    turn_steps: int
    warm_up_steps: int
    on_device: DeviceTurns | None = None
    turns: list[Turn] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._reader = ProgressReader(self.living.path)
        self._progress = self._reader.look()

    @property
    def updates(self) -> int:
        """Updates of the first optimizer so far, or what else closes steps."""
        self._progress = self._reader.look()
        return self._progress.steps

    @property
    def last_ns(self) -> int:
        """When the last of them was over that was looked at."""
        return self._progress.step_ns or 0

    def had_turn(self, begin_ns: int, end_ns: int, is_void: bool) -> None:
        """Note a turn; what was held up in its middle counts for nothing."""
        self.turns.append(Turn(begin_ns, begin_ns if is_void else end_ns))


def execute(
    executor: Executor,
    sides: Sequence[tuple[Variant, str]],
    number: int,
    plan: TrialPlan,
    tell: Callable[[int], None],
) -> tuple[list[Execution], KeyboardInterrupt | None]:
    """One round: start (variant, name of its folder) each, let them take turns, and end them.

    `tell` gets how many times all had their turn. Returns what was measured, and what interrupted it.
    Raises Apart where they do not get on with each other; PerfdoctorError where there is no room for what is
    recorded.
    """
    interrupt = None
    with ExitStack() as after:
        after.enter_context(guarded([executor.folder / name for _, name in sides]))  # left last
        peaks, logs, living = [], [], []
        for _, name in sides:
            path, log, peak = executor.folder / name, executor.folder / f"{name}.log", PeakMemory()
            after.callback(executor.protection.clear, path)
            after.callback(leftovers.end, path)  # comes first
            peaks.append(peak)
            logs.append(log)
        with ExitStack() as alive:
            for (variant, name), log, peak in zip(sides, logs, peaks, strict=True):
                options = executor.options(executor.folder / name, log, variant, StopRule(), True, plan.parks)
                try:
                    command = alive.enter_context(live(executor.command, options, peak.watch))
                except OSError as error:
                    raise executor.no_room(error) from None
                living.append(_side(variant, command, plan))
            try:
                with suspended_with([side.living for side in living]):
                    _take_turns(living, plan, tell)
            except KeyboardInterrupt as stop:
                interrupt = stop
            finally:
                _end(living)
        is_full = shutil.disk_usage(executor.folder).free < LEAST_BYTES
        compiles = any(settling.compiles(variant) for variant, _ in sides)
        executions = [
            _told(executor, side, CommandRun(side.living.outcome(), peak, log, is_full), number, compiles)
            for side, peak, log in zip(living, peaks, logs, strict=True)
        ]
        if interrupt is not None:
            executions = [_interrupted(each) for each in executions]
        return executions, interrupt


def _side(variant: Variant, command: LiveCommand, plan: TrialPlan) -> _LiveTraining:
    warm_up_steps, steps = plan.stretch(variant)
    turn_steps = max(1, round(steps / plan.turns))
    warm_up, turn = (round(count * plan.updates_per_step) for count in (warm_up_steps, turn_steps))
    on_device = DeviceTurns(str(command.path / names.TURNS)) if plan.parks else None
    return _LiveTraining(variant, command, warm_up, turn, turn_steps, warm_up_steps, on_device)


def _told(
    executor: Executor, side: _LiveTraining, ended: CommandRun, number: int, compiles: bool
) -> Execution:
    path = side.living.path
    records = recorded.read(path)
    execution = measure.in_turns(records, number, side.warm_up_steps, side.turns, side.turn_steps, compiles)
    whole = sum(turn_s == turn_s for turn_s in execution.turns_s)
    if execution.ending is ExecutionEnd.MEASURED and whole < LEAST_TURNS:
        execution = replace(execution, ending=ExecutionEnd.TOO_SHORT)
    return executor.told(execution, ended)


def _interrupted(execution: Execution) -> Execution:
    """The same, where it has enough turns; else it was not measured."""
    if execution.ending is ExecutionEnd.MEASURED:
        return execution
    return replace(execution, ending=ExecutionEnd.INTERRUPTED)


# ---------------------------------------------------------------- turns


def _take_turns(sides: Sequence[_LiveTraining], plan: TrialPlan, tell: Callable[[int], None]) -> None:
    """Let all settle, then each have its turns, every other time in the opposite order."""
    if not _settle(sides, plan):
        return
    for number in range(plan.turns):
        tell(number)
        for side in sides if number % 2 == 0 else sides[::-1]:
            if not (_turn if side.on_device is None else _turn_on_device)(side, plan):
                return


def _settle(sides: Sequence[_LiveTraining], plan: TrialPlan) -> bool:
    """Let all train until each has settled; who has, rests until all have. False where one ended before."""
    until_s = time.monotonic() + first_step_s(plan, *(side.variant for side in sides)) + plan.limit_s
    begun_s: float | None = None
    unsettled = list(sides)
    while unsettled:
        for side in list(unsettled):
            if side.living.is_over:
                return False  # it failed, or is too short: what it printed tells
            updates = side.updates
            if updates and begun_s is None:
                begun_s = time.monotonic()
            if updates >= side.warm_up:
                side.living.find_groups()
                side.living.rest()
                unsettled.remove(side)
        now_s = time.monotonic()
        if now_s > until_s or (begun_s is not None and now_s - begun_s > plan.limit_s):
            names = " and ".join(side.variant.name for side in unsettled)
            raise Apart(f"{names} did not get on beside the others")
        time.sleep(LONGEST_POLL_S)
    return True


def _turn(side: _LiveTraining, plan: TrialPlan) -> bool:
    """Let one train for its turn, and note which part of it counts; whether it goes on after it."""
    clock = _Clock(PATIENCE * plan.turn_s + SLACK_S)
    settled_s = time.monotonic() + SETTLES * plan.turn_s
    cut, suspensions = side.updates, side.living.suspensions
    side.living.go_on()
    try:
        goes_on = _until(side, cut + 1, clock)
        while goes_on and time.monotonic() < settled_s:
            goes_on = _until(side, side.updates + 1, clock)
        side.living.find_groups()
        begin, begin_ns = side.updates, side.last_ns
        goes_on = goes_on and _until(side, begin + side.turn + plan.spare_updates, clock)
    finally:
        side.living.rest()
    if goes_on:
        side.had_turn(begin_ns, side.last_ns, clock.slept or side.living.suspensions > suspensions)
    return goes_on


def _turn_on_device(side: _LiveTraining, plan: TrialPlan) -> bool:
    """The same of one on a device, which parks with nothing queued there as its turn ends.

    It settles over a tenth of the turn's updates: the device may be that far behind as the clock is read.
    """
    turns = side.on_device
    assert turns is not None
    if not turns.updates:
        raise Apart(f"{side.variant.name} makes no update at which its device could be waited for")
    clock, suspensions = _Clock(PATIENCE * plan.turn_s + SLACK_S), side.living.suspensions
    begin = turns.updates + 1 + math.ceil(SETTLES * side.turn)
    turns.begun_ns = turns.ended_ns = turns.parked_ns = 0
    turns.begin, turns.end = begin, begin + side.turn
    turns.park = turns.end + plan.spare_updates + 1
    side.living.go_on()
    try:
        goes_on = _until(side, turns.park, clock, lambda: turns.updates)
        side.living.find_groups()
    finally:
        side.living.rest()
    if goes_on:
        # A gradient scaler may have left out just the update at which the device was to be waited for.
        is_whole = turns.begun_ns > 0 and turns.ended_ns > 0
        is_void = clock.slept or side.living.suspensions > suspensions or not is_whole
        side.had_turn(turns.begun_ns, turns.parked_ns, is_void)
    return goes_on


class _Clock:
    """Says whether a turn takes far too long, and whether somebody stopped us in the middle of it."""

    def __init__(self, limit_s: float) -> None:
        self.slept = False
        self._last_s = time.monotonic()
        self._end_s = self._last_s + limit_s

    def tick(self) -> bool:
        """Whether there is time left."""
        now_s = time.monotonic()
        self.slept |= now_s - self._last_s > ASLEEP_S
        self._last_s = now_s
        return now_s < self._end_s


def _until(side: _LiveTraining, updates: int, clock: _Clock, made: Callable[[], int] | None = None) -> bool:
    """Wait until a side has made so many updates, by what `made` tells; False where it ended before."""
    made = made or (lambda: side.updates)
    begin, began_s = made(), time.monotonic()
    now = begin
    while now < updates:
        if side.living.is_over:
            return False
        if not clock.tick():
            raise Apart(f"{side.variant.name} did not go on after it had rested")
        each_s = (time.monotonic() - began_s) / max(1, now - begin)
        time.sleep(min(LONGEST_POLL_S, max(POLL_S, (updates - now - 1) * each_s / 2)))
        now = made()
    return True


def _end(sides: Sequence[_LiveTraining]) -> None:
    """Let all leave by themselves at once; what is still there afterwards is killed."""
    for side in sides:
        if not side.living.is_over:
            if side.on_device is not None:
                side.on_device.park = 0
            side.living.leave()
    until_s = time.monotonic() + LEAVING_S
    for side in sides:
        side.living.wait(max(0.0, until_s - time.monotonic()))
