"""Tells statements that only calculate: a target's arithmetic, and not the step of an environment."""

from __future__ import annotations

import ast
from functools import cached_property

from perfdoctor.facts.user_source.effects import EffectsFinder
from perfdoctor.facts.user_source.loop_statements import items_set
from perfdoctor.facts.user_source.parse import Listing, header


class Calculations:
    """What the statements of one file do beside giving values; it is looked through when first asked."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing

    @cached_property
    def _finder(self) -> EffectsFinder:
        return EffectsFinder(self._listing)

    @property
    def training(self) -> frozenset[str]:
        """The names of models, optimizers and what is built on them."""
        return self._finder.file.training

    def calculates(self, node: ast.stmt) -> bool:
        """Whether a statement changes nothing but the items that it sets, and calls nothing unknown.

        A generator of random numbers changes when it is asked for one, and an environment by its step.
        """
        effects = self._finder.of_statement(node)
        filled = {other for name in items_set(node) for other in self._finder.file.aliases(name, items=True)}
        return not (effects.unknown or effects.trains or effects.forwards or effects.changes - filled)

    def calls_functions(self, node: ast.stmt) -> bool:
        """Whether a statement calls functions of this file."""
        parts = [inner for part in header(node) for inner in ast.walk(part)]
        return any(any(self._finder.called(inner)) for inner in parts if isinstance(inner, ast.Call))
