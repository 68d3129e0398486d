"""Settings of the whole test run: what may start processes, what may run again, what runs alone.

A test that starts processes says so by the mark `process`; one that does without the mark is warned of at the end.
Only such tests run again when they fail, since what they watch shares the machine; each rerun is listed at the end.
With `--hypothesis-profile quick`, as in `make test`, a property is held against fewer examples.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from perfdoctor.diagnosis import calibration
from perfdoctor.own_failures import STRICT
from perfdoctor.watch.machine import history

RERUNS = 2  # of a test that starts processes: what is wrong fails three times
RERUN_DELAY_S = 1
EXAMPLES = {"quick": 15, "whole": 100}  # of a property, by profile
STARTS = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}

_running: list[pytest.Item] = []  # the test at work, where it may start no process


@pytest.hookimpl(tryfirst=True)  # before hypothesis looks for the profile that it is to load
def pytest_configure(config: pytest.Config) -> None:
    """Children start with the dispositions of a terminal's: under nohup, SIGHUP would be ignored by all of them."""
    profile = config.getoption("--hypothesis-profile", None)
    if profile in EXAMPLES:
        from hypothesis import HealthCheck, settings  # here: a second, in each run without a property

        busy = [HealthCheck.too_slow]  # says of a machine with other work that the property is at fault
        settings.register_profile(profile, max_examples=EXAMPLES[profile], suppress_health_check=busy)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    # As where the environment is activated: tests type `python`, and a machine may have `python3` alone.
    os.environ["PATH"] = os.pathsep.join(
        (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
    )
    sys.addaudithook(_watch_starts)
    os.environ[history.VARIABLE] = history.OFF  # no test reads or writes the developer's own
    os.environ[STRICT] = "1"  # what fails in perfdoctor itself fails the test


@pytest.fixture
def unraised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gains as the step model gives them, whatever measured ones ask for."""
    monkeypatch.setattr(calibration, "POWERS", {})


def _watch_starts(event: str, arguments: tuple[object, ...]) -> None:
    if event in STARTS and _running:
        warnings.warn(f"{_running[-1].nodeid} starts a process ({event}): mark it `process`", stacklevel=2)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that start processes run again when they fail, where the plugin for it is there; others do not."""
    again = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if again and item.get_closest_marker("process"):
            item.add_marker(pytest.mark.flaky(reruns=RERUNS, reruns_delay=RERUN_DELAY_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Know which test is at work."""
    if item.get_closest_marker("process"):
        return (yield)
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.clear()
