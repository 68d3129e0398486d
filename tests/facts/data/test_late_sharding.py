from __future__ import annotations

import itertools
import sys
from collections import Counter
from itertools import islice
from textwrap import dedent, indent
from types import SimpleNamespace

import pytest

from perfdoctor.facts.data.late_sharding import late_sharding_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader, step
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
FETCH = "fetch (/venv/lib/python3.11/site-packages/torch/utils/data/_utils/fetch.py:42)"
SCRIPT = dedent(
    """\
    class Texts(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            number, count = (info.id, info.num_workers) if info else (0, 1)
            for index, text in enumerate(self.read()):
                if index % count != number:
                    continue
                yield encode(text)
        def read(self):
            for line in self.file:
                yield json.loads(line)
    """
)
LOADER = loader(workers=4, iterable=True)


def stack(*lines, count=10):
    return ("worker 42", FETCH, *(f"{name} ({TRAIN}:{line})" for name, line in lines)), count


STEP = step(data_wait=90, forward=10)

PARSING = stack(("Texts.__iter__", 5), ("Texts.read", 11), count=30)
ENCODING = stack(("Texts.__iter__", 8), count=10)


def facts(*stacks, of_loader=LOADER, of_step=STEP):
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    return late_sharding_facts(records, of_step, of_loader, Sources(source_of(train=SCRIPT)))


def test_what_lies_before_the_choice_counts_and_what_lies_behind_it_does_not():
    found = facts(PARSING, ENCODING)
    assert (found.share, found.samples, found.workers) == (0.75, 30, 4)
    assert (found.at.line, found.filter.line) == (5, 6)
    assert found.filter.text == "if index % count != number:"


def test_a_choice_that_comes_first_has_nothing_before_it():
    assert facts(ENCODING) is None


@pytest.mark.parametrize("of_loader", [loader(workers=4), loader(workers=1, iterable=True)])
def test_datasets_with_an_index_and_single_workers_have_nothing_to_share_out(of_loader):
    assert facts(PARSING, of_loader=of_loader) is None


def test_without_samples_of_batches_it_is_not_known():
    assert isinstance(facts(), Missing)
    few = stack(("Texts.__iter__", 5), count=9)
    assert isinstance(facts(few), Missing)
    assert facts(few, of_step=step(data_wait=5, forward=95)) is None  # nothing to gain there


HEAD = """\
class Texts:
    def __init__(self):
        self.raw = [str(number) for number in range(12)]
        self.worker_id, self.num_workers = 1, 4
    def records(self):
        for line in self.raw:
            yield line
    def samples(self):
        for line in self.records():
            yield encode(line)
    def is_mine(self, index):
        return index % self.num_workers == self.worker_id
    def encode(self, line):
        return encode(line)
"""
INFO = "info = get_worker_info()\nwid, n = (info.id, info.num_workers) if info else (0, 1)\n"


def encoding(body: str) -> tuple[str, Counter[tuple[str, ...]]]:
    """The stacks at each call of `encode` while this `__iter__` gives its samples to one worker of four."""
    text = HEAD + indent("def __iter__(self):\n" + indent(INFO + dedent(body).strip(), "    "), "    ")
    stacks: list[tuple[str, ...]] = []

    def encode(line):
        frame, lines = sys._getframe(1), []
        while frame.f_code.co_filename == TRAIN:
            lines.append(f"{frame.f_code.co_name} ({TRAIN}:{frame.f_lineno})")
            frame = frame.f_back
        stacks.append(("worker 42", FETCH, *reversed(lines)))
        return line

    told = SimpleNamespace(id=1, num_workers=4)
    names = {"encode": encode, "get_worker_info": lambda: told, "itertools": itertools, "islice": islice}
    exec(compile(text, TRAIN, "exec"), names)
    assert list(names["Texts"]()) == ["1", "5", "9"]
    return text, Counter(stacks)


def share(body: str) -> float:
    """Of the calls of `encode`, those that are found to come before the choice."""
    text, stacks = encoding(body)
    records = RankRecords(
        0, None, None, (), tuple((each, 10 * count) for each, count in stacks.items()), "py-spy"
    )
    found = late_sharding_facts(records, STEP, LOADER, Sources(source_of(train=text)))
    return found.share if found is not None else 0.0


@pytest.mark.parametrize(
    "body",
    [
        "for i, s in enumerate(self.samples()):\n    if i % n == wid:\n        yield s",
        "for i, s in enumerate(self.samples()):\n    mine = i % n == wid\n    if mine:\n        yield s",
        "for i, s in enumerate(self.samples()):\n    if (i - wid) % n:\n        continue\n    yield s",
        "for i, s in enumerate(self.samples()):\n    if self.is_mine(i):\n        yield s",
        "for i, s in enumerate(self.samples()):\n    turn = i % n\n    if wid != turn:\n        continue\n    yield s",
        "for i, s in enumerate(self.samples()):\n    if i % n != wid:\n        pass\n    else:\n        yield s",
        "for turn, s in zip(itertools.cycle(range(n)), self.samples()):\n    if turn == wid:\n        yield s",
        "yield from (s for i, s in enumerate(self.samples()) if i % n == wid)",
        "return (s for i, s in enumerate(self.samples()) if i % n == wid)",
        "return islice(self.samples(), wid, None, n)",
        "stream = map(encode, self.raw)\nstream = (s for s in self.samples())\nreturn islice(stream, wid, None, n)",
        "samples = map(self.encode, self.records())\nyield from list(samples)[wid::n]",
        "return iter(list(self.samples())[wid::n])",
        "kept = filter(lambda p: p[0] % n == wid, enumerate(self.samples()))\nreturn (s for _, s in kept)",
        """
        kept = []
        for i, line in enumerate(self.records()):
            s = encode(line)
            if i % n == wid:
                kept.append(s)
        return iter(kept)
        """,
        """
        i, stream = -1, self.samples()
        while (s := next(stream, None)) is not None:
            i += 1
            if i % n == wid:
                yield s
        """,
        "return filter(lambda s: self.is_mine(int(s)), self.samples())",
        """
        shard, shards = 0 * n + wid, 1 * n
        for i, s in enumerate(self.samples()):
            if i % shards == shard:
                yield s
        """,
    ],
)
def test_all_is_encoded_before_a_worker_keeps_its_own(body):
    assert share(body) == 1.0


@pytest.mark.parametrize(
    "body",
    [
        "for i, r in enumerate(self.records()):\n    if i % n != wid:\n        continue\n    yield encode(r)",
        "for i, r in enumerate(self.records()):\n    if self.is_mine(i):\n        yield encode(r)",
        "for i, r in enumerate(self.records()):\n    if i % n == wid: yield self.encode(r)",
        "yield from (encode(r) for i, r in enumerate(self.records()) if i % n == wid)",
        "yield from (\n    encode(r)\n    for i, r in enumerate(self.records())\n    if i % n == wid\n)",
        "yield from map(self.encode, (r for i, r in enumerate(self.raw) if i % n == wid))",
        "return map(self.encode, islice(self.records(), wid, None, n))",
        "stream = islice(self.records(), wid, None, n)\nstream = map(self.encode, stream)\nreturn stream",
        "for r in self.raw[wid::n]:\n    yield encode(r)",
        "self.raw = self.raw[wid::n]\nyield from self.samples()",
        "for i in range(wid, len(self.raw), n):\n    yield self.encode(self.raw[i])",
        "kept = filter(lambda p: p[0] % n == wid, enumerate(self.records()))\nreturn (encode(r) for _, r in kept)",
        """
        kept = [r for i, r in enumerate(self.records()) if i % n == wid]
        for r in kept:
            s = encode(r)
            if kept:
                yield s
        """,
        "kept = [r for i, r in enumerate(self.records()) if i % n == wid]\nyield from map(self.encode, kept)",
    ],
)
def test_what_is_encoded_behind_the_choice_is_a_workers_own(body):
    assert share(body) == 0.0
