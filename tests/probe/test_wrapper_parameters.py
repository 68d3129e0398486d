import inspect
import sys
import traceback

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe import patch

DEFAULT = object()  # no literal


class Built:
    def __init__(self, data, size=4, *, name=DEFAULT, must):
        self.given = (data, size, name, must)


class Open:
    def __init__(self, data, *rest, **named):
        self.given = (data, rest, named)


def watched(monkeypatch, kind, before=lambda args, kwargs: None):
    monkeypatch.setattr(patch, "turned_off", {})
    monkeypatch.setattr(kind, "__init__", kind.__init__)
    original = kind.__init__
    patch.wrap(kind, "__init__", before, lambda *end: None, "built", method=True)
    return original, kind.__init__


@pytest.mark.shows("surroundings")
def test_a_watched_constructor_has_the_parameters_of_the_original_wherever_they_are_read(monkeypatch):
    original, wrapper = watched(monkeypatch, Built)
    assert wrapper.__code__.co_name == "built"
    assert inspect.signature(wrapper) == inspect.signature(original)
    assert inspect.getfullargspec(wrapper) == inspect.getfullargspec(original)
    assert (wrapper.__defaults__, wrapper.__kwdefaults__) == (original.__defaults__, original.__kwdefaults__)
    count = original.__code__.co_argcount + original.__code__.co_kwonlyargcount
    assert wrapper.__code__.co_argcount == original.__code__.co_argcount
    assert wrapper.__code__.co_varnames[:count] == original.__code__.co_varnames[:count]


def test_a_watched_constructor_is_given_what_it_was_called_with(monkeypatch):
    calls = []
    watched(monkeypatch, Built, lambda args, kwargs: calls.append((args[1:], kwargs)))
    assert Built(1, must=2).given == (1, 4, DEFAULT, 2)
    assert Built(1, 5, name="a", must=2).given == (1, 5, "a", 2)
    assert calls == [((1,), {"must": 2}), ((1,), {"must": 2, "size": 5, "name": "a"})]


def test_a_call_that_does_not_fit_fails_as_without_us(monkeypatch):
    with pytest.raises(TypeError) as bare:
        Built()
    watched(monkeypatch, Built)
    with pytest.raises(TypeError) as error:
        Built()
    assert str(error.value) == str(bare.value)


def test_a_constructor_of_open_parameters_is_called_as_before(monkeypatch):
    original, wrapper = watched(monkeypatch, Open)
    assert Open(1, 2, a=3).given == (1, (2,), {"a": 3})
    assert inspect.getfullargspec(wrapper) == inspect.getfullargspec(original)


def test_a_watched_function_tells_its_signature_to_who_does_not_look_for_the_original():
    def function(a, b=1, *, c=2):
        return a, b, c

    wrapper = patch.around(function, lambda args, kwargs: None, lambda *end: None, "function")
    assert inspect.getfullargspec(wrapper) == inspect.getfullargspec(function)
    assert wrapper(1, c=3) == (1, 1, 3)


def test_a_function_of_c_that_tells_no_signature_is_watched_all_the_same():
    wrapper = patch.around(vars, lambda args, kwargs: None, lambda *end: None, "function")
    assert wrapper(Built) == vars(Built)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters show the frame")
def test_an_error_of_the_constructor_shows_no_frame_of_ours(monkeypatch):
    class Fails:
        def __init__(self, data):
            raise ValueError(data)

    watched(monkeypatch, Fails)
    with pytest.raises(ValueError, match="1") as error:
        Fails(1)
    functions = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert functions == ["test_an_error_of_the_constructor_shows_no_frame_of_ours", "__init__"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters show the frame")
@pytest.mark.parametrize("amid", ["needed", "others"])
def test_a_signal_that_is_answered_before_the_constructor_shows_no_frame_of_ours(monkeypatch, amid):
    def answered(frame, event, _):
        if frame.f_code.co_name == amid and event == "line":
            raise InterruptedError
        return answered

    watched(monkeypatch, Built)
    sys.settrace(answered)
    try:
        with pytest.raises(InterruptedError) as error:
            Built(1, must=2)
    finally:
        sys.settrace(None)
    functions = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert not {"built", "needed", "others", "wrapper"} & set(functions)
