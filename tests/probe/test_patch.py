import functools
import signal
import sys
import traceback

import pytest

pytest.importorskip("torch")

from perfdoctor.probe import patch

OF_A_STEP = ("hook", "part_of_step")  # what is built by these is called with three arguments


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    monkeypatch.setattr(patch, "turned_off", {})
    patch.log_to(str(tmp_path / "probe.log"))
    yield tmp_path / "probe.log"
    patch._log_path = None


def nothing(*args):
    return None


def boom(*args):
    raise ZeroDivisionError("ours")


def test_the_wrapper_passes_arguments_and_result_through():
    calls = []

    def add(a, b=1):
        """Adds."""
        return a + b

    wrapped = patch.around(
        add,
        lambda args, kwargs: calls.append((args, kwargs)) or "token",
        lambda token, args, result: calls.append((token, args, result)),
        "forward",
    )
    assert wrapped(1, b=2) == 3
    assert calls == [((1,), {"b": 2}), ("token", (1,), 3)]
    assert (wrapped.__name__, wrapped.__doc__, wrapped.__code__.co_name) == ("add", "Adds.", "forward")


def test_the_wrapper_of_a_method_has_the_object_as_a_local_named_self():
    seen = []

    def method(self, value, scale=1):
        seen.append(sys._getframe(1).f_locals["self"])
        return value * scale

    wrapped = patch.around_method(
        method,
        lambda args, kwargs: seen.append((args, kwargs)) or "token",
        lambda token, args, result: seen.append((token, args, result)),
        "module_call",
    )
    assert wrapped("owner", 3, scale=2) == 6
    assert seen == [(("owner", 3), {"scale": 2}), "owner", ("token", ("owner", 3), 6)]
    assert wrapped.__code__.co_varnames[0] == "self"


@pytest.mark.parametrize("build", [patch.around, patch.around_method])
def test_an_error_of_the_scripts_passes_through_a_wrapper(build):
    finished = []
    wrapped = build(boom, lambda args, kwargs: "token", lambda *end: finished.append(end), "module_call")
    with pytest.raises(ZeroDivisionError, match="ours"):
        wrapped("owner")
    assert finished == [("token", ("owner",), None)]


@pytest.mark.shows("own-failure")
@pytest.mark.parametrize(
    ("before", "after"), [(boom, nothing), (lambda *args: 1, boom)], ids=["before", "after"]
)
def test_an_error_of_ours_is_logged_and_turns_the_patch_off(before, after, log):
    wrapped = patch.around(lambda: 42, before, after, "backward")
    assert wrapped() == 42
    assert "ZeroDivisionError: ours" in log.read_text()
    assert "backward" in patch.broken()
    assert wrapped() == 42
    assert log.read_text().count("\n") == 1


@pytest.mark.shows("dataset-raises", "raises")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters show the frame")
@pytest.mark.parametrize("token", [None, "token"])
def test_the_users_exception_shows_no_frame_of_ours(token):
    def fails():
        raise ValueError("the user's")

    wrapped = patch.around(fails, lambda *args: token, nothing, "module_call")
    with pytest.raises(ValueError, match="the user's") as caught:
        wrapped()
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert files == [__file__, __file__]


def test_after_sees_no_result_when_the_call_raised():
    seen = []

    def fails():
        raise ValueError("the user's")

    wrapped = patch.around(
        fails, lambda *args: "token", lambda token, args, result: seen.append(result), "forward"
    )
    with pytest.raises(ValueError, match="the user's"):
        wrapped()
    assert seen == [None]


@pytest.mark.shows("versions")
def test_wrapping_what_is_not_there_leaves_a_line_and_nothing_else(log):
    class Owner:
        pass

    patch.wrap(Owner, "missing", nothing, nothing, "save")
    assert "AttributeError" in log.read_text()
    assert not hasattr(Owner, "missing")


def test_a_vanished_log_is_no_error(tmp_path):
    patch.log_to(str(tmp_path / "gone" / "probe.log"))
    patch.report_trouble("forward", ValueError("x"))
    assert patch.broken() == {"forward": "ValueError: x"}


class Owner:
    """Somebody else's, with a function and a method to alter."""

    def scaled(self, value, by=1):
        """Scales."""
        return value * by

    def fails(self, value):
        raise ValueError("the user's")


@pytest.fixture
def owner(monkeypatch):
    for name in ("scaled", "fails"):
        monkeypatch.setattr(Owner, name, getattr(Owner, name))
    return Owner()


METHODS = pytest.mark.parametrize("method", [False, True], ids=["function", "method"])


@METHODS
def test_an_altered_call_gets_other_arguments_and_hands_on_another_result(owner, method):
    def before(args, kwargs):
        return (args[0], args[1] + 1), {**kwargs, "by": 10}, "token"

    patch.alter(Owner, "scaled", before, lambda token, result: (token, result), "forward", method)
    assert owner.scaled(2) == ("token", 30)
    assert (Owner.scaled.__name__, Owner.scaled.__doc__) == ("scaled", "Scales.")
    assert Owner.scaled.__code__.co_name == "forward"


@METHODS
def test_a_call_that_before_stays_out_of_is_as_it_was(owner, method):
    patch.alter(Owner, "scaled", nothing, lambda token, result: "altered", "forward", method)
    assert owner.scaled(2, by=3) == 6


@METHODS
def test_without_a_token_the_result_stays(owner, method):
    patch.alter(
        Owner,
        "scaled",
        lambda args, kwargs: (args, {"by": 5}, None),
        lambda *end: "altered",
        "forward",
        method,
    )
    assert owner.scaled(2) == 10


@METHODS
def test_none_as_a_result_is_handed_on(owner, method):
    patch.alter(Owner, "scaled", lambda args, kwargs: (args, kwargs, 1), nothing, "forward", method)
    assert owner.scaled(2) is None


@METHODS
@pytest.mark.parametrize(
    ("before", "after"),
    [(boom, nothing), (lambda args, kwargs: (args, kwargs, 1), boom)],
    ids=["before", "after"],
)
def test_an_error_of_ours_leaves_an_altered_call_as_it_was_and_turns_it_off(
    owner, method, before, after, log
):
    patch.alter(Owner, "scaled", before, after, "forward", method)
    assert [owner.scaled(2, by=3), owner.scaled(4)] == [6, 4]
    assert log.read_text().count("ZeroDivisionError: ours") == 1
    assert list(patch.broken()) == ["forward"]


@METHODS
def test_an_error_of_the_scripts_passes_an_altered_call_whatever_after_returns(owner, method):
    seen = []

    def after(token, result):
        seen.append((token, result))
        return "altered"

    patch.alter(Owner, "fails", lambda args, kwargs: (args, kwargs, "token"), after, "forward", method)
    with pytest.raises(ValueError, match="the user's") as caught:
        owner.fails(1)
    assert seen == [("token", None)]
    if sys.version_info >= (3, 11):
        files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert files == [__file__, __file__]


def test_an_altered_method_has_the_object_as_a_local_named_self(owner):
    seen = []
    patch.alter(Owner, "scaled", lambda args, kwargs: seen.append(args[0]), None, "forward", True)
    owner.scaled(2)
    assert seen == [owner]
    assert Owner.scaled.__code__.co_varnames[0] == "self"


def test_what_is_not_there_cannot_be_altered(owner):
    with pytest.raises(AttributeError, match="missing"):
        patch.alter(Owner, "missing", nothing, nothing, "forward")
    assert not hasattr(Owner, "missing")


@pytest.mark.shows("compile")
@METHODS
def test_the_compiler_sees_the_call_as_it_was_and_breaks_no_graph(owner, method):
    import torch
    import torch._dynamo.testing

    patch.alter(Owner, "scaled", lambda args, kwargs: (args, {"by": 100}, None), None, "forward", method)
    counter = torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(
        lambda value: owner.scaled(value + 1, by=2).sum(), backend=counter, fullgraph=True
    )
    assert compiled(torch.ones(3)).item() == 12
    assert counter.frame_count == 1
    assert owner.scaled(1, by=2) == 100


class Deadline(Exception):
    pass


class Handler:
    def method(self, number, frame):
        raise Deadline

    __call__ = method


def on_deadline(number, frame):
    raise Deadline


@pytest.mark.shows("other-signals")
@pytest.mark.parametrize(
    "handler",
    [on_deadline, Handler().method, Handler(), functools.partial(on_deadline)],
    ids=["function", "method", "object", "partial"],
)
def test_what_a_handler_of_the_script_raises_inside_our_code_reaches_the_script(log, monkeypatch, handler):
    before = signal.signal(signal.SIGALRM, handler)

    def interrupted(*args):
        signal.raise_signal(signal.SIGALRM)

    try:
        for call in (
            patch.around(int, interrupted, nothing, "forward"),
            patch.around(int, lambda *args: 1, interrupted, "forward"),
            patch.guarded("end", interrupted),
            patch.optimizer_hook("step", interrupted),
            patch.part("part", interrupted),
            patch.part_of_step("part", interrupted),
        ):
            arguments = (1, 2, 3) if any(name in call.__qualname__ for name in OF_A_STEP) else ("1",)
            with pytest.raises(Deadline) as raised:
                call(*arguments)
            files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
            # older interpreters put our frame back when re-raising
            assert set(files) == {__file__} or sys.version_info < (3, 11)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert patch.broken() == {}
    assert not log.exists()


@pytest.mark.shows("interrupt")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="older interpreters show the frame")
def test_ctrl_c_inside_our_code_shows_no_frame_of_ours(log):
    def interrupted(*args):
        signal.raise_signal(signal.SIGINT)

    for call in (
        patch.around(int, interrupted, nothing, "forward"),
        patch.around(int, lambda *args: 1, interrupted, "forward"),
        patch.around_method(int, interrupted, nothing, "forward"),
        patch.around_method(int, lambda *args: 1, interrupted, "forward"),
        patch.around(functools.partial(signal.raise_signal, signal.SIGINT), nothing, nothing, "forward"),
        patch.guarded("end", interrupted),
        patch.optimizer_hook("step", interrupted),
        patch.part("part", interrupted),
        patch.part_of_step("part", interrupted),
    ):
        arguments = (1, 2, 3) if any(name in call.__qualname__ for name in OF_A_STEP) else ("1",)
        if isinstance(getattr(call, "__wrapped__", None), functools.partial):
            arguments = ()
        with pytest.raises(KeyboardInterrupt) as raised:
            call(*arguments)
        files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
        assert files == [__file__]
    assert patch.broken() == {}
    assert not log.exists()


def test_an_end_is_told_at_that_moment_and_once(monkeypatch):
    monkeypatch.setattr(patch, "_listeners", {})
    told = []
    patch.when_off("forward", told.append)
    broken = patch.guarded("forward", lambda: {}["missing"])
    broken()
    broken()
    patch.report_trouble("forward", ValueError("again"))
    assert told == ["KeyError: 'missing'"]


def test_a_listener_with_an_error_is_turned_off_like_the_rest(monkeypatch):
    monkeypatch.setattr(patch, "_listeners", {})
    patch.when_off("forward", lambda why: {}["nobody"])
    patch.guarded("forward", lambda: {}["missing"])()
    assert set(patch.broken()) == {"forward", "trouble"}
