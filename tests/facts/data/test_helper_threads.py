from __future__ import annotations

import pytest

from perfdoctor.facts.data.helper_threads import helper_thread_facts, taken_from_threads
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Phase
from perfdoctor.runs.types import RankRecords
from tests.support.facts import line, stacks
from tests.support.load_facts import threads
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
STANDARD = "/usr/lib/python3.11"
SCRIPT = "row = torch.zeros(9)\nnumber = sum(word)\nraw = file.read()\n"
POOL = f"_worker ({STANDARD}/concurrent/futures/thread.py:83)"
MAIN = (("main", f"fit ({TRAIN}:9)"), 100)


def thread(number, *frames, count=50):
    return (f"thread Pool-{number}", POOL, *frames), count


def at(line):
    return f"features ({TRAIN}:{line})"


def work(*counted, samples=()):
    records = RankRecords(0, None, None, (), counted, "py-spy")
    return helper_thread_facts(records, Sources(source_of(train=SCRIPT)), samples)


def test_threads_that_run_python_are_counted_at_a_time():
    found = work(MAIN, thread(0, at(2), count=90), thread(1, at(2), count=70))
    assert (found.running, found.threads, found.samples) == (pytest.approx(1.6), 2, 160)


@pytest.mark.parametrize(
    "beyond",
    [
        (at(2), f"Condition.wait ({STANDARD}/threading.py:320)"),
        (at(2), "load (/venv/lib/python3.11/site-packages/PIL/ImageFile.py:5)"),
        (at(2), f"readinto ({STANDARD}/socket.py:700)"),
        (at(3),),
        (),
    ],
    ids=["waits", "decodes", "fetches", "reads", "idle"],
)
def test_threads_that_wait_or_let_others_run_are_not(beyond):
    assert work(MAIN, thread(0, *beyond)) is None


def test_lines_of_plain_python_come_before_those_that_wait_to_get_the_interpreter_back():
    found = work(MAIN, thread(0, at(1), count=90), thread(0, at(2), count=20))
    assert [line.at.line for line in found.lines] == [2, 1]


def test_what_the_training_thread_neither_ran_nor_waited_is_time_it_was_held_up():
    samples = [
        {
            "t_ns": t * 10**9,
            "procs": [{"pid": 1, "role": "main", "thread_cpu_s": 0.3 * t, "thread_delay_s": 0.1 * t}],
        }
        for t in range(5)
    ]
    waits = (("main", f"fit ({TRAIN}:9)", f"Queue.get ({STANDARD}/queue.py:171)"), 100)
    assert work(MAIN, waits, thread(0, at(2)), samples=samples).blocked == pytest.approx(0.1)
    assert work(MAIN, thread(0, at(2))).blocked is None


def test_a_pool_inside_the_dataset_is_waited_for_in_a_fetch():
    fetch = "fetch (/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py:50)"
    pool = (
        "main",
        f"fit ({TRAIN}:9)",
        fetch,
        at(2),
        f"Future.result ({STANDARD}/concurrent/futures/_base.py:451)",
    )
    assert work(MAIN, (pool, 100), thread(0, at(2))).awaited == pytest.approx(0.5)
    assert work(MAIN, thread(0, at(2))).awaited == 0


def test_lines_that_build_batches_of_what_busy_threads_made_are_waits():
    found = taken_from_threads(stacks(line(0.1, 63, "queue"), line(0.2, 64, "data")), threads())
    assert [one.kind for one in found.phases[Phase.OTHER]] == ["queue", "queue"]


def test_a_loop_that_takes_nothing_from_threads_builds_its_batches_itself():
    alone = stacks(line(0.2, 64, "data"))
    assert taken_from_threads(alone, threads()) is alone
    queued = stacks(line(0.1, 63, "queue"), line(0.2, 64, "data"))
    assert taken_from_threads(queued, threads(running=0.1)) is queued
    assert taken_from_threads(queued, None) is queued
