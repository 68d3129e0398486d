"""What perfdoctor writes and where: streams may be closed, narrow, colourless or unable to spell."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

from perfdoctor.errors import PerfdoctorError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfdoctor.render.page import Page

DEFAULT_COLUMNS = 80
GONE = (errno.EPIPE, errno.ECONNRESET, errno.EBADF, errno.EIO)  # nobody reads it any more


def accept_all_letters() -> None:
    """Write what a stream cannot encode as an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(message: str, hint: str | None = None) -> None:
    """One line of ours on stderr, and below it what to type next."""
    from perfdoctor.render.text import escape_control

    lines = [f"perfdoctor: {escape_control(message)}", *([f"  {escape_control(hint)}"] if hint else [])]
    emit("\n".join(lines) + "\n", sys.stderr)


def emit(text: str, stream: TextIO | None) -> bool:
    """Write `text`; a stream that is closed, or whose reader has gone, is left alone from then on: False.

    Raises PerfdoctorError where stdout has no room: half a document must not pass for a whole one.
    """
    if stream is not None and "utf" not in (stream.encoding or "").lower():
        from perfdoctor.render.text import ASCII

        text = text.translate(ASCII)
    return _written(stream, lambda open_stream: open_stream.write(text))


def emit_as_it_is(text: str, stream: TextIO | None) -> bool:
    """Write `text` as UTF-8, whatever the stream's own encoding is. Else as `emit`."""
    return _written(stream, lambda open_stream: open_stream.buffer.write(text.encode()))


def _written(stream: TextIO | None, write: Callable[[TextIO], object]) -> bool:
    if stream is None:
        return False
    try:
        stream.flush()
        write(stream)
        stream.flush()
    except (OSError, ValueError) as error:
        _silence(stream)
        if isinstance(error, OSError) and error.errno not in GONE and stream is sys.stdout:
            raise PerfdoctorError(f"stdout cannot be written: {error.strerror}") from None
        return False
    return True


def show(page: Page, stream: TextIO | None, as_markdown: bool = False) -> None:
    """Draw a page on the stream: for its terminal, or as Markdown."""
    if as_markdown:
        from perfdoctor.render import markdown

        emit(markdown.draw(page), stream)
    else:
        from perfdoctor.render import terminal  # here: rich is only needed for a page

        emit(terminal.draw(page, columns(stream), wants_colour(stream)), stream)


def _silence(stream: TextIO) -> None:
    """Point the stream nowhere, so that Python's own flush at the end has nothing to complain about."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def columns(stream: TextIO | None) -> int:
    """How wide to write."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    if _is_terminal(stream):
        with suppress(OSError):
            return os.get_terminal_size(stream.fileno()).columns or DEFAULT_COLUMNS  # type: ignore[union-attr]
    return DEFAULT_COLUMNS


def wants_colour(stream: TextIO | None) -> bool:
    """A terminal that knows colours, whose user has not declined them."""
    declined = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb"
    return _is_terminal(stream) and not declined


def _is_terminal(stream: TextIO | None) -> bool:
    with suppress(OSError, ValueError):
        return stream is not None and stream.isatty()
    return False
