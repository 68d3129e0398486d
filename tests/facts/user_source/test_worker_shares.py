from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.facts.user_source.worker_shares import sharing_loops


def loops(body: str) -> list[tuple[int, int, int]]:
    """(first, last, filter) of the loops in a function of these lines."""
    text = "def __iter__(self):\n" + "\n".join(f"    {line}" for line in dedent(body).strip().splitlines())
    return [(loop.first, loop.last, loop.filter) for loop in sharing_loops(Listing(text.splitlines()))]


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


def test_functions_that_call_each_other_are_looked_at_once():
    text = "def one(i):\n    return two(i)\ndef two(i):\n    return one(i)\n"
    assert sharing_loops(Listing(text.splitlines())) == ()


def test_an_islice_in_a_helper_names_what_makes_the_stream_that_it_is_given():
    text = """\
    def mine(stream, info):
        return islice(stream, info.worker_id, None, info.num_workers)
    def samples():
        yield 1
    def give(info):
        return mine(map(str, samples()), info)
    """
    (loop,) = sharing_loops(Listing(dedent(text).splitlines()))
    assert loop.makers == {"samples"}
