from __future__ import annotations

import errno
import io
import os
import sys

import pytest

from perfdoctor.cli import output
from perfdoctor.errors import PerfdoctorError


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


class Closed(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        raise ValueError("I/O operation on closed file")


@pytest.mark.shows("plain-terminal")
@pytest.mark.parametrize(
    ("stream", "environ", "wanted"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (Closed(), {"TERM": "xterm"}, False),
        (None, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_whose_users_have_not_declined_them(monkeypatch, stream, environ, wanted):
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert output.wants_colour(stream) is wanted


@pytest.mark.shows("plain-terminal")
@pytest.mark.parametrize(("value", "width"), [("132", 132), ("0", 80), ("wide", 80), ("²", 80), ("", 80)])
def test_the_width_is_what_the_environment_says_else_eighty(monkeypatch, value, width):
    monkeypatch.setenv("COLUMNS", value)
    assert output.columns(io.StringIO()) == width


@pytest.mark.shows("plain-terminal")
def test_signs_are_spelled_for_a_stream_that_cannot_show_them():
    class Ascii(io.StringIO):
        encoding = "ascii"

    stream = Ascii()
    output.emit("2.3× █ µs\n", stream)
    assert stream.getvalue() == "2.3x # us\n"


@pytest.mark.shows("closed-output")
def test_a_closed_stream_is_left_alone():
    stream = Terminal()
    stream.close()
    output.emit("text", stream)
    output.emit("text", None)


class Failing(io.StringIO):
    encoding = "utf-8"

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, text):
        raise OSError(self.number, os.strerror(self.number))


def test_a_full_disk_behind_stdout_is_an_error_and_not_half_a_document(monkeypatch):
    monkeypatch.setattr("sys.stdout", Failing(errno.ENOSPC))
    with pytest.raises(PerfdoctorError, match="stdout cannot be written: No space left on device"):
        output.emit("{}", sys.stdout)


@pytest.mark.parametrize(("name", "number"), [("stderr", errno.ENOSPC), ("stdout", errno.EPIPE)])
def test_a_reader_that_has_gone_and_a_full_stderr_are_left_alone(monkeypatch, name, number):
    monkeypatch.setattr(f"sys.{name}", Failing(number))
    assert not output.emit("text", getattr(sys, name))
