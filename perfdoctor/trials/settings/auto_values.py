"""Resolves `auto` as a tweak's value into numbers, by the run that was watched: one, or several to try."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfdoctor.errors import PerfdoctorError
from perfdoctor.facts.gather import Facts
from perfdoctor.model.trial import Setting, Variant
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.trials.settings.flags import VALUE
from perfdoctor.trials.settings.tweak_facts import TweakFacts
from perfdoctor.tweaks import AUTO, NoChoice


def resolve(variants: Iterable[Variant], facts: Facts | None) -> tuple[Variant, ...]:
    """The variants, with a number for every `auto`; `facts` are the last run's, None where there is none.

    Raises PerfdoctorError where there is nothing to choose a number by.
    """
    return tuple(Variant(settings) for variant in variants for settings in _resolved(variant.settings, facts))


def _resolved(settings: Sequence[Setting], facts: Facts | None) -> list[tuple[Setting, ...]]:
    """Each way to resolve all of these settings."""
    combinations: list[tuple[Setting, ...]] = [()]
    for setting in settings:
        choices = [setting]
        if setting.values.get(VALUE) == AUTO:
            choices = [with_value(setting, number) for number in _numbers(setting, facts)]
        combinations = [(*before, choice) for before in combinations for choice in choices]
    return combinations


def with_value(setting: Setting, number: int) -> Setting:
    """The same tweak with another number for its own flag."""
    words = (setting.words[0], str(number), *setting.words[2:])
    return replace(setting, words=words, values={**setting.values, VALUE: number})


def _numbers(setting: Setting, facts: Facts | None) -> Sequence[int]:
    """What `auto` of this tweak stands for, as the tweak chooses it."""
    choose = getattr(tweak_catalogue.declared(setting.tweak).takes, "auto", None)
    if choose is None:
        raise PerfdoctorError(
            f"{' '.join(setting.words)}: there is nothing to choose by",
            f"give a number to {setting.words[0]}",
        )
    try:
        numbers: Sequence[int] = choose(TweakFacts(facts))
    except NoChoice as missing:
        raise PerfdoctorError(str(missing), missing.hint) from None
    return numbers
