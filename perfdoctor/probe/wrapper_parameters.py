"""The parameters of a wrapped function, for who reads them off the wrapper itself.

`inspect.signature` follows `__wrapped__`; `inspect.getfullargspec`, `__defaults__` and `__code__` do not, by
which scripts and libraries choose those entries of a configuration that a constructor knows.
"""

from __future__ import annotations

import inspect
import sys
import types
from typing import Any, Callable, Dict, List, Optional

from .wrapper_code import named

OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def signature_of(function: Callable[..., Any]) -> Optional[inspect.Signature]:
    """What `function` can be called with; None where it does not tell, as some of C."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def constructor_like(
    watched: types.FunctionType, original: Callable[..., Any], name: str
) -> types.FunctionType:
    """A function of that name with a constructor's parameters that calls `watched`; else `watched` itself.

    Only constructors: the call more is too much for what runs in each step. What is as by default is not
    handed on, since a tweak sets what was not given.
    """
    signature = signature_of(original) if getattr(original, "__name__", "") == "__init__" else None
    if signature is None:
        return watched
    parameters = list(signature.parameters.values())
    kinds = {parameter.kind for parameter in parameters}
    if not parameters or kinds & {*OPEN, inspect.Parameter.POSITIONAL_ONLY}:
        return watched
    defaults = {one.name: one.default for one in parameters if one.default is not one.empty}
    by_keyword = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    plain = [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]
    built = named(_taking(plain, by_keyword, _handed_on(watched, plain, defaults)), name)
    built.__defaults__ = tuple(defaults[one] for one in plain if one in defaults) or None
    built.__kwdefaults__ = {one: defaults[one] for one in by_keyword if one in defaults} or None
    return built


def _handed_on(watched: types.FunctionType, plain: List[str], defaults: Dict[str, Any]) -> Dict[str, Any]:
    """The globals of `_body`: what calls the wrapper, with which arguments by position and by name."""

    def needed(given: Dict[str, Any]) -> List[Any]:
        return [given[name] for name in plain if name not in defaults]

    def others(given: Dict[str, Any]) -> Dict[str, Any]:
        asked = {name: value for name, value in given.items() if name in defaults or name not in plain}
        return {name: value for name, value in asked.items() if value is not defaults.get(name, OPEN)}

    return {**globals(), "watched": watched, "needed": needed, "others": others}


def _body() -> Any:
    """The code of a constructor that was given parameters: its only locals, or it would find others."""
    try:
        return globals()["watched"](*globals()["needed"](locals()), **globals()["others"](locals()))
    except BaseException:
        _cut()
        raise


def _cut() -> None:
    """Drop the frame of `_body` from the head of the traceback: see patch.cut.

    And where a signal was answered in what it asks, the frames of that, which are of this file.
    """
    error, here = sys.exc_info()[1], _cut.__code__.co_filename
    if error is None or error.__traceback__ is None:
        return
    left = error.__traceback__.tb_next
    while left is not None and left.tb_frame.f_code.co_filename == here:
        left = left.tb_next
    error.__traceback__ = left


def _taking(plain: List[str], by_keyword: List[str], space: Dict[str, Any]) -> types.FunctionType:
    """`_body` with these parameters."""
    code = _body.__code__.replace(
        co_argcount=len(plain),
        co_kwonlyargcount=len(by_keyword),
        co_nlocals=len(plain) + len(by_keyword),
        co_varnames=(*plain, *by_keyword),
    )
    return types.FunctionType(code, space)


def tell_signature(wrapper: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Have `wrapper` say with what `original` can be called, where its own code says something else."""
    signature, own = signature_of(original), inspect.signature(wrapper, follow_wrapped=False)
    if signature is not None and _names(signature) != _names(own):
        vars(wrapper)["__signature__"] = signature


def _names(signature: inspect.Signature) -> List[Any]:
    return [(one.name, one.kind) for one in signature.parameters.values()]
