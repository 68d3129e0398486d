from __future__ import annotations

import sys

import pytest

from perfdoctor.probe.script_signals import from_handler, was_sent


class Deadline(Exception):
    pass


def handler(number, frame):
    raise TimeoutError


def other(number, text):
    raise Deadline


def caught(function, *args):
    try:
        function(*args)
    except (TimeoutError, Deadline) as error:
        return error


def test_an_error_of_a_handler_that_is_not_set_any_more_is_the_scripts():
    traceback = from_handler(caught(handler, 14, sys._getframe()))
    assert traceback is not None
    assert traceback.tb_frame.f_code is handler.__code__
    assert from_handler(caught(other, 14, "text")) is None


def test_an_error_of_the_scripts_that_no_code_of_its_raised_was_sent():
    assert was_sent(Deadline())
    assert not was_sent(caught(other, 14, "text"))
    assert not was_sent(ValueError())


@pytest.mark.parametrize("error", [ValueError(), KeyError(1)])
def test_an_error_of_ours_is_ours(error):
    assert from_handler(error) is None
    assert not was_sent(error)
