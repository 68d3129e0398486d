from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe import on_import, patch
from perfdoctor.probe.trial import tweak
from tests.support.sessions import Session

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(patch, "turned_off", {})
    patch.log_to(str(tmp_path / "probe.log"))
    yield tmp_path / "probe.log"
    patch._log_path = None


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def here(session):
    return tweak.Tweaking("faster", session, torch)


# ------------------------------------------------------------ what a tweak takes


@pytest.mark.parametrize(
    ("word", "value"), [("0", 0), ("8", 8), ("512", 512), ("auto", tweak.AUTO), ("08", 8)]
)
def test_a_count_reads_whole_numbers_in_its_range(word, value):
    assert tweak.Count(0, 512, auto=True).read(word) == value


@pytest.mark.parametrize("word", ["-1", "513", "1.5", "", " 1", "1e2", "٣", "many", "Auto"])
def test_a_count_refuses_the_rest(word):
    with pytest.raises(ValueError, match="^" + word):
        tweak.Count(0, 512, auto=True).read(word)


def test_a_count_without_auto_refuses_it():
    assert tweak.Count(1, 2).allowed == "a whole number from 1 to 2"
    with pytest.raises(ValueError, match="auto"):
        tweak.Count(1, 2).read("auto")


def test_one_of_a_few_words_is_read_as_it_stands():
    kind = tweak.OneOf("bf16", "fp16")
    assert kind.read("bf16") == "bf16"
    assert (kind.metavar, kind.allowed) == ("bf16|fp16", "one of bf16, fp16")
    with pytest.raises(ValueError, match="BF16"):
        kind.read("BF16")


# ------------------------------------------------------------ what a tweak tells


def test_each_line_is_told_once_for_each_change(here, session):
    for number in range(3):
        here.applied("size", was=1, now=number)
    here.left_alone("size", "it is large")
    here.applied("depth", at={"file": "/train.py", "line": 4, "function": "main"})
    told = [(each["outcome"], each["what"]) for each in session.events]
    assert told == [("applied", "size"), ("left_alone", "size"), ("applied", "depth")]
    first, second, third = session.events
    assert (first["tweak"], first["was"], first["now"]) == ("faster", 1, 0)
    assert first["at"]["file"] == __file__
    assert second["because"] == "it is large"
    assert third["at"]["line"] == 4


def test_what_is_withdrawn_in_a_loader_worker_is_told_there(here, session, monkeypatch):
    appended = []
    monkeypatch.setattr(session, "in_worker", lambda: True, raising=False)
    monkeypatch.setattr(session, "append", appended.append, raising=False)
    here.applied("size", was=1, now=0)
    here.withdrawn("size", "it grew")
    assert [event["outcome"] for event in session.events] == ["applied"]
    assert [(event.outcome, event.because) for event in appended] == [("withdrawn", "it grew")]


# ------------------------------------------------------------ acting


class Machine:
    def __init__(self):
        self.settings = []

    def set(self, value):
        self.settings.append(value)
        return value


@pytest.fixture
def machine(monkeypatch):
    monkeypatch.setattr(Machine, "set", Machine.set)
    return Machine()


def test_a_call_is_changed(here, machine):
    here.alter(Machine, "set", lambda args, kwargs: (args, {"value": 9}, None))
    assert machine.set(value=1) == 9
    assert machine.settings == [9]


def test_an_error_of_a_tweaks_leaves_the_users_call_as_it_was_and_turns_all_of_the_tweak_off(
    here, machine, log
):
    def broken(args, kwargs):
        raise ZeroDivisionError("ours")

    here.alter(Machine, "set", lambda args, kwargs: (args, {"value": 9}, None))
    here.alter(Machine, "set", broken)
    assert machine.set(value=1) == 1
    assert machine.set(value=2) == 2
    assert log.read_text().count("faster: ZeroDivisionError: ours") == 1


def test_a_callback_with_an_error_turns_the_tweak_off(here):
    here.guarded(lambda: {}["missing"])()
    assert patch.broken() == {"faster": "KeyError: 'missing'"}


def test_a_module_that_is_imported_later_is_seen_then(here, monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(on_import, "_watcher", type(on_import._watcher)())
    monkeypatch.delitem(sys.modules, "this", raising=False)
    seen = []
    here.on_import("json", lambda module: seen.append(module.__name__))
    here.on_import("stringprep", lambda module: seen.append(module.__name__))
    monkeypatch.delitem(sys.modules, "stringprep", raising=False)
    assert seen[:1] == ["json"]
    import stringprep  # noqa: F401

    assert seen == ["json", "stringprep"]


# ------------------------------------------------------------ tweaks as files


@pytest.fixture
def files(monkeypatch):
    """Modules of tweaks, by name, as `tweaks/` would hold them."""

    def add(name, **members):
        module = ModuleType(f"perfdoctor.tweaks.{name}")
        module.__file__ = f"/perfdoctor/tweaks/{name}.py"
        for key, member in members.items():
            if callable(member):
                member.__module__ = module.__name__
            setattr(module, key, member)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return module

    return add


def marked(function, *rest, **more):
    return tweak.tweak("--faster", tweak.BITWISE, *rest, **more)(function)


def test_every_tweak_that_was_asked_for_gets_its_value_and_its_extras_by_name(session, files):
    seen = []
    files("alone", act=marked(lambda here: seen.append(here.name)))
    files("valued", act=marked(lambda here, value, mode=None: seen.append((here.name, value, mode))))
    session.options = {"tweaks": {"alone": {}, "valued": {"value": 8, "mode": "max"}}}
    tweak.apply_all(session, torch)
    assert seen == ["alone", ("valued", 8, "max")]


def test_a_tweak_that_cannot_be_applied_is_noted_and_the_others_are(session, files, log):
    seen = []
    files("first", act=marked(lambda here: here.alter(Machine, "missing", lambda *call: None)))
    files("second", act=marked(lambda here: seen.append(here.name)))
    session.options = {"tweaks": {"first": {}, "nowhere": {}, "second": {}}}
    tweak.apply_all(session, torch)
    assert seen == ["second"]
    assert list(patch.broken()) == ["first", "nowhere"]
    assert "no attribute 'missing'" in log.read_text()


def test_a_run_without_tweaks_applies_none(session):
    session.options = {}
    tweak.apply_all(session, torch)
    assert session.events == []


def test_a_file_has_one_tweak_and_may_import_those_of_others(files):
    own = marked(lambda here: None)
    borrowed = marked(lambda here: None)
    module = files("own", act=own)
    module.borrowed = borrowed
    assert tweak.function_of(module) is own
    with pytest.raises(TypeError, match=r"exactly one function marked with @tweak, found 2"):
        tweak.function_of(files("two", one=marked(lambda here: None), other=marked(lambda here: None)))
    with pytest.raises(TypeError, match="found 0"):
        tweak.function_of(files("none", value=SimpleNamespace()))


def test_what_a_mark_says_is_kept():
    kind = tweak.Count(1, 2)
    function = tweak.tweak("--size", tweak.PATH, kind, {"--size-mode": tweak.OneOf("a")})(
        lambda here, size: None
    )
    said = function.__tweak__
    assert (said.flag, said.result, said.takes, list(said.extras)) == (
        "--size",
        tweak.PATH,
        kind,
        ["--size-mode"],
    )
