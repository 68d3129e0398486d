import os

import pytest

from perfdoctor.probe.profiler import silence


@pytest.mark.parametrize(
    ("environ", "is_silent"),
    [
        ({}, True),
        ({"KINETO_LOG_LEVEL": "99"}, True),
        ({"KINETO_LOG_LEVEL": "5"}, True),
        ({"KINETO_LOG_LEVEL": "4"}, False),
        ({"KINETO_LOG_LEVEL": "quiet"}, False),
    ],
)
def test_levels_of_five_and_more_are_silent_and_so_is_none(environ, is_silent):
    assert silence.is_silent(environ) is is_silent
    assert silence.is_chosen(environ) is bool(environ)


@pytest.mark.shows("guest")
@pytest.mark.parametrize(("chosen", "seen"), [(None, "99"), ("5", "5")])
def test_the_environment_is_as_before_once_the_profiler_has_started(monkeypatch, chosen, seen):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    if chosen:
        monkeypatch.setenv("KINETO_LOG_LEVEL", chosen)
    levels = []
    silence.silently(lambda torch: levels.append(os.environ["KINETO_LOG_LEVEL"]), None)
    assert levels == [seen]
    assert os.environ.get("KINETO_LOG_LEVEL") == chosen


def test_a_profiler_that_does_not_start_leaves_the_environment_alone(monkeypatch):
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    with pytest.raises(ZeroDivisionError):
        silence.silently(lambda torch: 1 / 0, None)
    assert "KINETO_LOG_LEVEL" not in os.environ


@pytest.mark.shows("guest")
@pytest.mark.parametrize("chosen", [None, "5"])
def test_what_torchs_profiler_warns_of_is_neither_said_nor_kept_from_the_script(monkeypatch, chosen):
    profiler = pytest.importorskip("torch.profiler.profiler")
    said = []
    monkeypatch.setattr(profiler, "_warn_once", said.append, raising=False)
    if chosen:
        monkeypatch.setenv("KINETO_LOG_LEVEL", chosen)
    silence.silently(lambda torch: profiler._warn_once("events are cleared"), None)
    assert said == []
    with pytest.raises(ZeroDivisionError):
        silence.silently(lambda torch: 1 / 0, None)
    profiler._warn_once("the script's own")
    assert said == ["the script's own"]
