"""The only place that replaces an attribute of somebody else's, and the only guard around our own code.

A wrapper built here runs our `before` and `after` around the original call. Whatever goes wrong in *our*
code turns that patch off and leaves a line in probe.log; the user's own exceptions pass untouched, with
our frame cut out of their traceback. What a signal handler of the script raises while our code happens to run
is the user's as well.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from typing import Any, Callable, Dict, Optional, Tuple

from ..wire import names
from . import script_signals
from .compile_question import compile_question
from .wrapper_code import named
from .wrapper_parameters import constructor_like, tell_signature
from .wrapping import Args, Kwargs

Before = Callable[[Args, Kwargs], Any]
After = Callable[[Any, Args, Any], None]
Prepare = Callable[[Args, Kwargs], Optional[Tuple[Args, Kwargs, Any]]]
Conclude = Callable[[Any, Any], Any]

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

_log_path: Optional[str] = None
turned_off: Dict[str, str] = {}  # name of a patch -> why; only this module writes it
_listeners: Dict[str, Callable[[str], object]] = {}  # name of a patch -> who is told why, when it happens


def log_to(path: str) -> None:
    """Send the probe's own troubles to the file at `path`."""
    global _log_path
    _log_path = path


def broken() -> Dict[str, str]:
    """The patches that turned themselves off: {name: why}."""
    return dict(turned_off)


def when_off(name: str, tell: Callable[[str], object]) -> None:
    """Call `tell(why)` at the moment when `name` turns itself off."""
    _listeners[name] = guarded("trouble", tell)


def report_trouble(name: str, error: BaseException) -> None:
    """Remember that `name` failed and write one line to probe.log; raises nothing but what is not ours."""
    script_signals.hand_back(error)
    why = f"{type(error).__name__}: {error}"
    if name not in turned_off:
        turned_off[name] = why
        if name in _listeners:
            _listeners[name](why)
    if _log_path is None:
        return
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        _mark_full(_log_path)
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    line = f"pid {os.getpid()} {name}: {why}"
    if traceback is not None:
        line += f" ({os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno})"
    try:
        descriptor = os.open(_log_path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode("utf-8", "backslashreplace"))
        finally:
            os.close(descriptor)
    except OSError:
        pass  # a full or vanished run directory must not reach the script


def _mark_full(log_path: str) -> None:
    try:
        path = os.path.join(os.path.dirname(log_path), names.DISK_FULL)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError:
        pass


def not_ours(name: str, error: BaseException) -> bool:
    """Report an error of ours; whether it is none: Ctrl-C, or what a handler of the script's raised.

    Then its traceback has lost our frames.
    """
    traceback = script_signals.from_handler(error)
    if traceback is None and isinstance(error, Exception) and not script_signals.was_sent(error):
        report_trouble(name, error)
        return False
    error.__traceback__ = traceback
    return True


def guarded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a callback: an error of ours is logged and turns it off.

    Under torch.compile the callback does nothing, so that a traced optimizer step keeps its graph.
    """
    tracing, compiler = compile_question()

    def call(*args: Any, **kwargs: Any) -> Any:
        if tracing() or compiler._is_compiling_flag or name in turned_off:
            return None
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if not_ours(name, error):
                raise
            return None

    return call


def optimizer_hook(name: str, function: Callable[[Any], None]) -> Callable[[Any, Any, Any], None]:
    """`function(optimizer)` as a hook of torch's around an optimizer's step, guarded like the rest.

    Apart from `guarded`, since it runs twice a step: a fixed signature costs a third of an open one.
    """
    tracing, compiler = compile_question()

    def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing() or compiler._is_compiling_flag or (turned_off and name in turned_off):
            return
        try:
            function(optimizer)
        except BaseException as error:
            if not_ours(name, error):
                raise

    return hook


def part(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as a part of a callback that asked the compiler already: its errors end it alone."""

    def call(*args: Any) -> Any:
        if name in turned_off:
            return None
        try:
            return function(*args)
        except BaseException as error:
            if not_ours(name, error):
                raise

    return call


def part_of_step(name: str, function: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
    """Like `part`, once a step or more often: a fixed signature costs a third of an open one."""

    def call(first: Any, second: Any, third: Any) -> None:
        if turned_off and name in turned_off:
            return
        try:
            function(first, second, third)
        except BaseException as error:
            if not_ours(name, error):
                raise

    return call


def profile_function(name: str, function: Callable[[Any, str, Any], None]) -> Callable[[Any, str, Any], None]:
    """`function` for `sys.setprofile`: its errors end the profiling and never reach the script."""

    def profile(frame: Any, event: str, arg: Any) -> None:
        try:
            function(frame, event, arg)
        except BaseException as error:
            sys.setprofile(None)
            if not_ours(name, error):
                raise

    return profile


def cut(error: BaseException) -> None:
    """Drop the current frame, which is ours, from the head of the error's traceback.

    A bare `raise` that follows keeps it that way on Python 3.11 and newer; older ones show the frame. Where
    signals often come, as at the end of an epoch, it is written out: in a call one may be answered.
    """
    # None where Ctrl-C came in our frame, or C raised
    error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next


def around(original: Callable[..., Any], before: Before, after: After, name: str) -> Callable[..., Any]:
    """A function like `original` that calls `before(args, kwargs)`, then `after(token, args, result)`.

    `before` returns None to stay out of this call. `after` sees result None where the call raised. The
    wrapper's frame carries `name`, which is how stack samples learn the phase. Under torch.compile it is a
    plain call of the original: that question must come first, or graphs break.
    """
    tracing, compiler = compile_question()

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if tracing() or compiler._is_compiling_flag:
            return original(*args, **kwargs)
        token = None
        if name not in turned_off:
            try:
                token = before(args, kwargs)
            except BaseException as error:
                if not_ours(name, error):
                    raise
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            if token is not None:
                _finish(after, token, args, None, name)
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # no call: see cut
            raise
        if token is not None:
            try:
                after(token, args, result)
            except BaseException as error:
                if not_ours(name, error):
                    raise
        return result

    return finished(wrapper, original, name)


def around_method(
    original: Callable[..., Any], before: Before, after: After, name: str
) -> Callable[..., Any]:
    """Like `around`, for a method whose frame torch's profiler looks into.

    Recording stacks, it reads the local `self` of each frame that runs `nn.Module.__call__`, and crashes
    where there is none.
    """
    tracing, compiler = compile_question()

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing() or compiler._is_compiling_flag:
            return original(self, *args, **kwargs)
        token = None
        given = (self, *args)
        if name not in turned_off:
            try:
                token = before(given, kwargs)
            except BaseException as error:
                if not_ours(name, error):
                    raise
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            if token is not None:
                _finish(after, token, given, None, name)
            error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next  # no call: see cut
            raise
        if token is not None:
            try:
                after(token, given, result)
            except BaseException as error:
                if not_ours(name, error):
                    raise
        return result

    return finished(wrapper, original, name)


def around_clearing(
    original: Callable[..., Any], drops: bool, before: Before, after: After, name: str
) -> Callable[..., Any]:
    """Like `around_method`, for a `zero_grad`, of which only calls that ask for zeros are of interest.

    `drops` is what it does when not told. It runs in each step: a fixed signature costs a third.
    """
    filling = around(original, before, after, name)

    def wrapper(self: Any, set_to_none: bool = drops) -> Any:
        try:
            return original(self, set_to_none) if set_to_none else filling(self, set_to_none)
        except BaseException as error:
            cut(error)
            raise

    return finished(wrapper, original, name)


def finished(wrapper: Any, original: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The wrapper as stack samples name it, hidden from the compiler, with the looks of the original."""
    bound = constructor_like(named(wrapper, name), original, name)
    tell_signature(functools.update_wrapper(bound, original), original)
    return bound


def _finish(after: After, token: Any, args: Args, result: Any, name: str) -> None:
    try:
        after(token, args, result)
    except BaseException as error:
        if not_ours(name, error):
            raise


def wrap(owner: Any, attribute: str, before: Before, after: After, name: str, method: bool = False) -> None:
    """Replace `owner.attribute` by a wrapper around it; a failure leaves it as it was."""
    try:
        build = around_method if method else around
        replace(owner, attribute, lambda original: build(original, before, after, name))
    except Exception as error:
        report_trouble(name, error)


def alter(
    owner: Any, attribute: str, before: Prepare, after: Optional[Conclude], name: str, method: bool = False
) -> None:
    """Replace `owner.attribute` by a wrapper that may change its arguments and its result.

    `before(args, kwargs)` returns None to stay out of this call, or (args, kwargs, token) to call with;
    `after(token, result)` returns the result to hand on. Where the call raised, `after` sees None and what it
    returns is dropped. Raises what is wrong with the attribute: a tweak that cannot be applied has failed.
    """
    build = altering_method if method else altering
    replace(owner, attribute, lambda original: build(original, before, after, name))


def replace(owner: Any, attribute: str, build: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace `owner.attribute` by what `build` makes of it, which has to keep the laws of wrappers here."""
    setattr(owner, attribute, build(getattr(owner, attribute)))


def altering(
    original: Callable[..., Any], before: Prepare, after: Optional[Conclude], name: str
) -> Callable[..., Any]:
    """A function like `original` between `before` and `after`: see `alter`."""
    tracing, compiler = compile_question()

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if tracing() or compiler._is_compiling_flag:
            return original(*args, **kwargs)
        token = None
        changed = _prepared(before, args, kwargs, name)
        if changed is not None:
            args, kwargs, token = changed
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            _concluded(after, token, None, name)
            cut(error)
            raise
        return _concluded(after, token, result, name)

    return finished(wrapper, original, name)


def altering_method(
    original: Callable[..., Any], before: Prepare, after: Optional[Conclude], name: str
) -> Callable[..., Any]:
    """Like `altering`, for a method whose frame torch's profiler looks into: see `around_method`."""
    tracing, compiler = compile_question()

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing() or compiler._is_compiling_flag:
            return original(self, *args, **kwargs)
        token = None
        changed = _prepared(before, (self, *args), kwargs, name)
        if changed is not None:
            (self, *args), kwargs, token = changed  # type: ignore[assignment]
        try:
            result = original(self, *args, **kwargs)
        except BaseException as error:
            _concluded(after, token, None, name)
            cut(error)
            raise
        return _concluded(after, token, result, name)

    return finished(wrapper, original, name)


def _prepared(before: Prepare, args: Args, kwargs: Kwargs, name: str) -> Optional[Tuple[Args, Kwargs, Any]]:
    """What `before` answers; None where it stays out, or fails."""
    if name in turned_off:
        return None
    try:
        return before(args, kwargs)
    except Exception as error:
        report_trouble(name, error)
        return None


def _concluded(after: Optional[Conclude], token: Any, result: Any, name: str) -> Any:
    """The result to hand on; as it came where `before` stayed out or `after` fails."""
    if after is None or token is None:
        return result
    try:
        return after(token, result)
    except Exception as error:
        report_trouble(name, error)
        return result
