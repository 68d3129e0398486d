"""Errors that a signal handler of the script raised while our code ran: they are the script's."""

from __future__ import annotations

import functools
import sys
import types
from typing import Iterator, Optional

from .user_frames import is_users


def hand_back(error: BaseException) -> None:
    """Raise the error again if a signal handler of the script raised it: the script waits for it.

    Handlers run between any two instructions of the main thread, ours too. A deadline kept by SIGALRM, or a
    preemption told by SIGUSR1, would be lost in our guard.
    """
    traceback = from_handler(error)
    if traceback is not None or was_sent(error):
        raise error.with_traceback(traceback)


def from_handler(error: BaseException) -> Optional[types.TracebackType]:
    """The traceback from a signal handler of the script's on; None where no such handler raised the error."""
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _is_given_a_signal(traceback.tb_frame) or any(code is handler for handler in _handlers()):
            return traceback
        traceback = traceback.tb_next
    return None


def was_sent(error: BaseException) -> bool:
    """Whether another thread of the script's sent the error here, of a class of its own.

    Unlike that, one that the script's code raised where we called it has a frame of the script's.
    """
    module = sys.modules.get(type(error).__module__)
    if not _is_users_file(getattr(module, "__file__", None)):
        return False
    traceback = error.__traceback__
    while traceback is not None and not _is_users_file(traceback.tb_frame.f_code.co_filename):
        traceback = traceback.tb_next
    return traceback is None


def _is_users_file(file: object) -> bool:
    return isinstance(file, str) and is_users(file)


def _is_given_a_signal(frame: types.FrameType) -> bool:
    """Whether a frame of the script's is that of a handler, set still or not, by what it was called with."""
    code = frame.f_code
    if code.co_argcount < 2 or not is_users(code.co_filename):
        return False
    given = [frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount]]
    return any(
        isinstance(number, int) and isinstance(interrupted, types.FrameType)
        for number, interrupted in zip(given, given[1:])
    )


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
