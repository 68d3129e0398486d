import sys
import types

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.profiler import users_profiler
from perfdoctor.probe.profiler.users_profiler import UsersProfilers, stacks_unsafe


def test_a_profiler_is_busy_from_its_preparation_to_its_end():
    watched, profiler = UsersProfilers(), object()
    asked = []
    watched.make_way = lambda: asked.append(len(watched.prepared))
    watched.before_prepare((profiler,), {})
    assert asked == [1]  # noted before ours is asked to make way
    assert watched.busy(torch)
    watched.after_end(watched.before_end((profiler,), {}), (profiler,), None)
    assert not watched.busy(torch)


def test_our_own_profiler_is_not_foreign():
    from _thread import get_ident

    watched = UsersProfilers()
    watched.acting = get_ident()
    watched.before_prepare((object(),), {})
    assert not watched.busy(torch)
    assert watched.before_end((object(),), {}) is None
    assert not watched.were_there


def test_a_profiler_that_nobody_announced_is_seen_by_torchs_flag(monkeypatch):
    monkeypatch.setattr(torch.autograd.profiler, "_is_profiler_enabled", True)
    assert UsersProfilers().busy(torch)


@pytest.mark.shows("other-tools")
def test_stacks_are_not_recorded_where_the_script_has_a_profile_function(monkeypatch):
    monkeypatch.setattr(users_profiler.sys, "getprofile", lambda: None)
    known = stacks_unsafe(torch)
    monkeypatch.setattr(users_profiler.sys, "getprofile", lambda: print)
    assert stacks_unsafe(torch) is not None
    assert known != stacks_unsafe(torch)


@pytest.mark.shows("compile")
def test_stacks_are_not_recorded_beside_the_compiler(monkeypatch):
    counters = {"frames": {"total": 3}}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", types.SimpleNamespace(counters=counters))
    assert "compile" in (stacks_unsafe(torch) or "")


@pytest.mark.shows("versions")
@pytest.mark.parametrize(
    ("python", "version", "safe"),
    [
        ((3, 11), "2.1.0", True),
        ((3, 13), "2.6.0+cu124", False),
        ((3, 13), "2.7.1", True),
        ((3, 14), "2.13.0", False),
    ],
)
def test_stacks_are_recorded_only_with_versions_known_to_be_safe(monkeypatch, python, version, safe):
    fake = types.SimpleNamespace(
        version_info=python, modules={}, getprofile=lambda: None, _is_gil_enabled=lambda: True
    )
    monkeypatch.setattr(users_profiler, "sys", fake)
    assert (stacks_unsafe(types.SimpleNamespace(__version__=version)) is None) is safe
