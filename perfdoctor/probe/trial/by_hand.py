"""How one types into a script what a tweak does, as the tweak declares it: see `edits` of `tweak`.

Each class is one way to write a change. `fits(what, now)` tells whether it is the way for a place that the
tweak told of: by what was changed there, and to what.
"""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence, Tuple

BF16_ON = "bfloat16 on "  # and the type of a device: what a model under autocast became


class Argument:
    """An argument of a call, at the line that asked for what was changed.

    `calls` are the names of what is called there. `name` is the argument's, and its value what the place
    became; without a name, what it became names the argument, which is then True. `place` is where it stands
    among those that are given by position, `instead_of` others that it excludes, and whose place it takes,
    `only_with` those that may not be given where it is 0, `trainer` its name among transformers'
    TrainingArguments. `every` call of a line is meant where it makes several that are alike.
    """

    def __init__(
        self,
        *calls: str,
        name: Optional[str] = None,
        what: Optional[str] = None,
        became: Optional[str] = None,
        to: Any = None,
        place: Optional[int] = None,
        instead_of: Tuple[str, ...] = (),
        only_with: Tuple[str, ...] = (),
        trainer: Optional[str] = None,
        every: bool = False,
    ) -> None:
        self.calls = calls
        self.name = name
        self.what = what  # a place has to begin with it; None: any that the tweak changed
        self.became = became  # and what it became, with this
        self.to = to
        self.place = place
        self.instead_of = instead_of
        self.only_with = frozenset(only_with)
        self.trainer = trainer
        self.every = every

    def fits(self, what: str, now: Any) -> bool:
        """Whether the place is one of those."""
        return what.startswith(self.what or "") and str(now).startswith(self.became or "")

    def named(self, now: Any) -> str:
        """What the argument is called where the place became that."""
        return str(now) if self.name is None else self.name

    def value(self, now: Any) -> Any:
        """What it is set to."""
        return True if self.name is None else now if self.to is None else self.to


class Statement:
    """A statement of its own behind the imports; `{}` stands for what the place became.

    `what`, if given, is what a place has to begin with for it; `rivals` are names of other settings of the
    same: a script that uses one decides itself.
    """

    def __init__(self, text: str, what: Optional[str] = None, rivals: Sequence[str] = ()) -> None:
        self.text = text
        self.what = what
        self.rivals = rivals

    def fits(self, what: str, now: Any) -> bool:
        """Whether the place is one of those."""
        return what.startswith(self.what or "")

    def written(self, now: Any) -> str:
        """The statement as one types it."""
        return self.text.format(now)


class Around:
    """A context manager around the statement of a line."""

    def __init__(self, context: str) -> None:
        self.context = context

    def fits(self, what: str, now: Any) -> bool:
        """It fits any place."""
        return True


class Autocast:
    """Autocast in bfloat16 around the call of a model, and what it returns in float32 again."""

    def fits(self, what: str, now: Any) -> bool:
        """Whether the model returned one tensor: then `what` is the name of its class and nothing else."""
        return what.isidentifier() and str(now).startswith(BF16_ON)

    def context(self, now: str) -> str:
        """The context manager as one types it."""
        device = now[len(BF16_ON) :]
        return f'torch.autocast("{device}", dtype=torch.bfloat16)'


class Method:
    """A method of the model that a line calls, called once it is made: `text` with its arguments."""

    def __init__(self, text: str, became: str) -> None:
        self.text = text
        self.became = became

    def fits(self, what: str, now: Any) -> bool:
        """Whether that is what it became: then `what` is the name of its class and nothing else."""
        return what.isidentifier() and bool(now == self.became)


class OfArgument:
    """A method of an argument that a model is called with, called on it: `text` with its own arguments."""

    PLACE = re.compile(r"argument (\w+) of (\w+)")  # its number, from 1 on, or its name; the model's class

    def __init__(self, text: str, became: str) -> None:
        self.text = text
        self.became = became

    @staticmethod
    def place(argument: Any, model: str) -> str:
        """What a tweak tells of an argument that it changed: its index, or its name."""
        return f"argument {argument + 1 if isinstance(argument, int) else argument} of {model}"

    def fits(self, what: str, now: Any) -> bool:
        """Whether that is what an argument became."""
        return self.PLACE.fullmatch(what) is not None and bool(now == self.became)
