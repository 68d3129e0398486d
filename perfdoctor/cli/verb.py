"""What typer reads off the command line, without what it loads to convert words that need no conversion.

Text is taken as typed, and defaults as they are. For either, typer would load pydantic, which takes as long
as a short verb does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

TEXT = (str, list[str])
NoSuchOption = sys.modules[typer.BadParameter.__module__].NoSuchOption  # of click, or of typer's copy of it


class Verb(TyperCommand):
    """A verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its arguments and options, and `--help`."""
        return _leanly(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words behind it. Raises PerfdoctorError where a tweak stands among the options."""
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            if any("--with" in parameter.opts for parameter in self.params):
                _refuse_tweak(error.option_name)
            raise


class Verbs(TyperGroup):
    """All of them, with what may stand before a verb."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options before a verb, and `--help`."""
        return _leanly(super().get_params(ctx))


class LeanConversion:
    """Converts the value of one parameter; asks typer only about text that is to become something else."""

    def __init__(self, usual: Callable[[], Any], is_text: bool) -> None:
        self.usual = usual
        self.is_text = is_text

    def coerce(self, value: Any, **where: Any) -> Any:
        """The value for the function."""
        is_typed = isinstance(value, (str, tuple))
        return self.usual().coerce(value, **where) if is_typed and not self.is_text else value


def _leanly(parameters: Iterable[Any]) -> list[Any]:
    """The same parameters, converted by LeanConversion."""
    found = list(parameters)
    for parameter in found:
        described = getattr(parameter, "type_descriptor", None)  # None: a typer that has no pydantic
        if described is not None and "get_runtime_param" not in vars(parameter):
            lean = LeanConversion(parameter.get_runtime_param, described.annotation in TEXT)
            parameter.get_runtime_param = lambda lean=lean: lean
    return found


def _refuse_tweak(flag: str) -> None:
    """Raise PerfdoctorError if a flag belongs to a tweak."""
    from perfdoctor.errors import PerfdoctorError
    from perfdoctor.trials.settings import tweak_catalogue

    if any(flag in (tweak.flag, *tweak.extras) for tweak in tweak_catalogue.tweaks()):
        hint = "tweaks stand in --with, in quotes: perfdoctor run --with '--workers 4 --amp' train.py"
        raise PerfdoctorError(f"{flag} is a tweak, and no option", hint)
