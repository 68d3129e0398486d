"""Errors that a signal handler of the script raised while our code ran: they are the script's."""

from __future__ import annotations

import functools
import sys
import types
from typing import Iterator, Optional


def hand_back(error: BaseException) -> None:
    """Raise the error again if a signal handler of the script raised it: the script waits for it.

    Handlers run between any two instructions of the main thread, ours too. A deadline kept by SIGALRM, or a
    preemption told by SIGUSR1, would be lost in our guard.
    """
    traceback = from_handler(error)
    if traceback is not None:
        raise error.with_traceback(traceback)


def from_handler(error: BaseException) -> Optional[types.TracebackType]:
    """The traceback from a signal handler of the script's on; None where no such handler raised the error."""
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if any(code is handler for handler in _handlers()):
            return traceback
        traceback = traceback.tb_next
    return None


def _handlers() -> Iterator[types.CodeType]:
    """The code of the signal handlers that are set."""
    signal = sys.modules.get("signal")
    for number in signal.valid_signals() if signal is not None else ():
        handler = signal.getsignal(number)  # type: ignore[union-attr]
        while isinstance(handler, functools.partial):
            handler = handler.func
        handler = getattr(handler, "__func__", handler)
        of_class = [vars(kind)["__call__"] for kind in type(handler).__mro__ if "__call__" in vars(kind)]
        for function in (handler, *of_class[:1]):
            if isinstance(function, types.FunctionType):
                yield function.__code__
