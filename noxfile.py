"""The tests on other versions of Python and torch than those that are developed with: `nox`, or for one pair
`nox -s "versions(python='3.10', torch='2.4.1')"`. A Python that is not installed is skipped.

What runs is what depends on the versions: the probe in processes of its own, and commands that are watched.
Behind ` -- ` other tests can be named.
"""

from __future__ import annotations

import nox

FLOOR, NEWEST = "2.4.1", "2.13.0"  # pyproject.toml asks for the first, constraints.txt pins the second
TORCH = {  # and the Pythons that it was built for
    FLOOR: ("3.10", "3.11", "3.12"),
    "2.6.0": ("3.10", "3.11", "3.12", "3.13"),
    "2.8.0": ("3.10", "3.11", "3.12", "3.13"),
    NEWEST: ("3.10", "3.11", "3.12", "3.13", "3.14"),
}
TESTS = (
    "tests/probe tests/wire tests/tweaks tests/watch/test_launch.py tests/e2e/test_transparency.py".split()
)
TOOLS = "hypothesis jsonschema pexpect pytest pytest-rerunfailures pytest-timeout pytest-xdist pyyaml".split()

nox.options.error_on_missing_interpreters = False


@nox.session
@nox.parametrize("python,torch", [(python, torch) for torch, pythons in TORCH.items() for python in pythons])
def versions(session: nox.Session, torch: str) -> None:
    """Run the tests with one version of torch."""
    session.install(f"torch=={torch}", *TOOLS, "-e", ".")
    session.run("python", "-m", "pytest", "-m", "not slow and not clock", *(session.posargs or TESTS))
