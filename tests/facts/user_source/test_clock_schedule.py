"""A clock that decides what a script does is found, one that is only shown is not."""

from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.clock_schedule import scheduling_line
from perfdoctor.facts.user_source.parse import Listing


def line(source: str) -> int | None:
    return scheduling_line(Listing(dedent(source).strip().splitlines()))


@pytest.mark.parametrize(
    ("source", "at"),
    [
        ("import time\nend = time.time() + 60\nwhile time.time() < end:\n    step()", 3),
        (
            "import time as t\nend = t.monotonic() + 60\nwhile True:\n    if t.monotonic() > end:\n        break",
            4,
        ),
        (
            (
                "from time import perf_counter as clock\nlast = clock()\nfor x in loader:\n    elapsed = clock() - last\n"
                "    if elapsed > 600:\n        validate()\n        last = clock()"
            ),
            5,
        ),
        (
            (
                "import datetime\nstart = datetime.datetime.now()\nfor x in loader:\n"
                "    if datetime.datetime.now() - start > limit and step > 3:\n        torch.save(model, path)"
            ),
            4,
        ),
        (
            (
                "import time\nclass Trainer:\n    def fit(self):\n        self.begun = time.time()\n"
                "        for x in loader:\n            used = time.time() - self.begun\n"
                "            if used / 60 >= self.minutes:\n                return"
            ),
            7,
        ),
    ],
    ids=["for-a-minute", "break", "validates", "saves", "attributes"],
)
def test_a_clock_that_decides_is_found(source, at):
    assert line(source) == at


@pytest.mark.parametrize(
    "source",
    [
        "import time\nt0 = time.time()\nfor x in loader:\n    step()\nprint(f'{time.time() - t0:.1f} s')",
        "import time\nt0 = time.time()\nrate = steps / (time.time() - t0)\nif step % 100 == 0:\n    print(rate)",
        (
            "import time\nlast = time.time()\nfor x in loader:\n    step()\n    if time.time() - last > 5:\n"
            "        print(step)\n        last = time.time()\n        count = 0"
        ),
        "import time\nstart = None\nfor x in loader:\n    if start is None:\n        start = time.time()",
        "import time\nepoch = 0\nwhile epoch < 3:\n    time.sleep(0.1)\n    epoch += 1",
        "for event in events:\n    if event.time() > limit:\n        step()",
        "not python at all:",
    ],
    ids=["shown", "a-rate", "logs-now-and-then", "none-yet", "sleeps", "not-a-clock", "no-python"],
)
def test_a_clock_that_is_only_shown_is_none(source):
    assert line(source) is None
