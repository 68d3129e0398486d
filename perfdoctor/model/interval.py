"""How often a line of the user's runs, by the loop and the conditions around it."""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class Interval:
    """The loop around a line, and the remainder within that loop that it runs by, where there is one.

    As under `if step % N == 0`, or after `if step % N: continue`.
    """

    counter: str | None  # the name that counts the turns of the loop, where the source has one
    of_updates: bool = True  # each turn makes an update; else it makes many: an epoch, an episode
    counted: str | None = None  # what is taken modulo N: `step + 1`, in brackets where it needs them
    period: str | None = None  # N, a number or what stands for it
    rest: str = "0"  # what the remainder is compared with
    is_in_caller: bool = False  # the loop is that of a function that calls the line's
    of_lightning: bool = False  # Lightning gathers what the line logs, and writes it more rarely

    is_tested: bool = False  # by something else than a remainder, which may come as rarely as one

    def through(self, below: Interval) -> Interval:
        """With what a function that the line calls tests before it logs."""
        if below.period is not None and (below.is_in_caller or below.counter is None):
            return replace(below, is_in_caller=True)  # `if step % N == 0` in the function that logs
        return replace(self, is_tested=self.is_tested or below.is_tested)

    def rarer(self, times: int, turns: int) -> str:
        """The header under which the line runs `times` as rarely; where nothing but its loop repeats it, and
        each turn makes an update, once in so many `turns`."""
        if self.counted is not None and self.period is not None:
            known = self.period.isdecimal()
            longer = str(times * int(self.period)) if known else f"({times} * {self.period})"
            return f"if {self.counted} % {longer} == {self.rest}:"
        if self.of_updates:
            return f"if {self.counter or 'step'} % {turns} == 0:"
        return f"if {self.counter or 'epoch'} % {times} == 0:"


OF_STEPS = Interval(counter=None)  # where the source does not show the loop
