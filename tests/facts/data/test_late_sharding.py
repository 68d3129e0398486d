from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.data.late_sharding import late_sharding_facts, sharing_loops
from perfdoctor.facts.user_source.parse import Listing, Sources
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


def loops(body: str) -> list[tuple[int, int, int]]:
    """(first, last, filter) of the loops in a function of these lines."""
    text = "def __iter__(self):\n" + "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    return [(loop.first, loop.last, loop.filter) for loop in sharing_loops(Listing(text.splitlines()))]


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


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(
            """
            worker = torch.utils.data.get_worker_info()
            for i, x in enumerate(self.stream()):
                x = parse(x)
                if i % worker.num_workers == worker.id:
                    yield x
            """,
            [(3, 5, 5)],
            id="parsed-in-the-loop",
        ),
        pytest.param(
            """
            info = get_worker_info()
            yield from itertools.islice(self.stream(), info.id, None, info.num_workers)
            """,
            [(3, 3, 3)],
            id="islice",
        ),
        pytest.param(
            """
            for x in islice(self.stream(), self.worker_id, None, self.num_workers):
                yield x
            """,
            [(2, 2, 2)],
            id="named-after-workers",
        ),
        pytest.param(
            """
            info = get_worker_info()
            for i, line in enumerate(self.file):
                if i % info.num_workers == info.id: yield self.parse(line)
            """,
            [(3, 3, 4)],
            id="parsed-on-the-line-of-the-choice",
        ),
        pytest.param(
            """
            info = get_worker_info()
            for i, line in enumerate(self.stream()):
                if i % info.num_workers == info.id:
                    yield from self.pieces(line)
            """,
            [(3, 4, 4)],
            id="several-of-each",
        ),
        pytest.param(
            """
            info = get_worker_info()
            yield from map(self.parse, islice(self.file, info.id, None, info.num_workers))
            """,
            [],
            id="parsed-behind-the-choice",
        ),
        pytest.param(
            """
            info = get_worker_info()
            size = self.batch // info.num_workers
            for i, x in enumerate(self.mine(info)):
                if (i + 1) % size == 0:
                    yield collate(x)
            """,
            [],
            id="batches-of-a-worker",
        ),
        pytest.param(
            """
            info = get_worker_info()
            dice = Random(info.seed)
            for x in self.mine(info):
                if dice.randrange(100) % 10 == 0:
                    continue
                yield x
            """,
            [],
            id="chance",
        ),
        pytest.param(
            """
            info = get_worker_info()
            for path in self.paths[info.id :: info.num_workers]:
                yield from read(path)
            """,
            [],
            id="files-are-shared-out",
        ),
        pytest.param(
            """
            for i, x in enumerate(self.stream()):
                if i % self.every == 0:
                    yield x
            """,
            [],
            id="every-tenth-sample",
        ),
        pytest.param(
            """
            info = get_worker_info()
            for i, x in enumerate(self.stream()):
                if i % info.num_workers == info.id:
                    log(x)
            """,
            [],
            id="what-is-only-counted",
        ),
    ],
)
def test_loops_that_share_out_what_is_prepared(body, expected):
    assert loops(body) == expected


def test_text_that_is_no_python_has_none():
    assert sharing_loops(Listing(["def ("])) == ()
