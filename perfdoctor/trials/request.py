"""What `perfdoctor try` is to measure, and whom it tells how far it is."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Remark
from perfdoctor.model.trial import Variant


@dataclass(frozen=True)
class Request:
    """The command and what to measure of it. What is None, the plan decides."""

    command: tuple[str, ...]
    variants: tuple[Variant, ...]
    cwd: str | None = None  # where the command runs; None: here
    rounds: int | None = None
    steps: int | None = None  # measured in each execution
    seconds: float | None = None  # for the whole trial
    metric: str | None = None  # a regular expression over what the script prints
    yes: bool = False  # go on where the script's files cannot be protected
    out: str | None = None
    run: Path | None = None  # the run that predictions come from
    ranks: tuple[int, ...] = ()  # numbers of ranks to compare, the fewest first, instead of variants
    auto: bool = False  # try what the run advises, too, one on top of the other, and keep what helps
    keep_arguments: bool = False  # store the command with its secrets


class ProgressDisplay(Protocol):
    """Shows what is being measured."""

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        """An execution of `what` begins, `done` of `of` are over; `left_s` is how long the rest may take."""

    def say(self, remark: Remark) -> None:
        """Something worth a line of its own."""

    def end(self) -> None:
        """Nothing more is measured."""
