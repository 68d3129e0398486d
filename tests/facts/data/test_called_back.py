from __future__ import annotations

from textwrap import dedent

import pytest

from perfdoctor.facts.data.batch_stages import batch_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.runs.types import RankRecords
from tests.support.facts import loader, step
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
SITE = "/venv/lib/python3.11/site-packages"
STANDARD = "/usr/lib/python3.11"
SCRIPT = dedent(
    """\
    def tone(value, gamma):
        return int(255 * (value / 255) ** gamma)
    class Leaves(Dataset):
        def __getitem__(self, index):
            return self.curve(self.images[index], 0.5)
    class Texts(Dataset):
        def __getitem__(self, index):
            text = re.sub(r"[0-9]+", self.spelled, self.texts[index])
            words = sorted(text.split(), key=rarity)
            features = self.table.apply(feature, axis=1)
            count = rarity(text) + text.count(" ")
            return self.compose(words)
    """
)
FETCHES = (
    f"_worker_loop ({SITE}/torch/utils/data/_utils/worker.py:350)",
    f"fetch ({SITE}/torch/utils/data/_utils/fetch.py:54)",
)
LEAF = f"Leaves.__getitem__ ({TRAIN}:5)"
VECTORIZE = (f"vectorize.__call__ ({SITE}/numpy/lib/function_base.py:9)",)
CALLS = (*VECTORIZE, f"vectorize._vectorize_call ({SITE}/numpy/lib/function_base.py:90)")
TONE = f"tone ({TRAIN}:2)"
COMPOSES = f"Compose.__call__ ({SITE}/torchvision/transforms/transforms.py:95)"
ROWS = f"Series.__init__ ({SITE}/pandas/core/series.py:400)"


def text(line, function="Texts.__getitem__"):
    return f"{function} ({TRAIN}:{line})"


def called_back(*stacks):
    """(function, line that calls the library, share) of samples in hundredths."""
    stacks = tuple((("worker 42", *FETCHES, *frames), count) for count, frames in stacks)
    records = RankRecords(0, None, None, (), stacks, "py-spy")
    of_loader = loader(workers=2, batch=100, collate_s=0.0)
    found = batch_facts(
        records, step(data_wait=90, forward=10), of_loader, None, Sources(source_of(train=SCRIPT))
    )
    return [(one.function, one.by.line, pytest.approx(one.share)) for one in found.called_back]


def test_the_librarys_time_on_the_way_to_a_function_is_the_functions():
    found = called_back((50, (LEAF, *CALLS, TONE)), (40, (LEAF, *CALLS)), (10, (LEAF, *VECTORIZE)))
    assert found == [("tone", 5, 0.5)]


def test_a_function_that_is_handed_over_has_all_that_the_call_takes():
    number = (text(8), f"sub ({STANDARD}/re/__init__.py:185)")
    assert called_back(
        (30, (*number, text(30, "Texts.spelled"))),
        (10, number),
        (20, (text(9), text(31, "rarity"))),
        (10, (text(9),)),
        (15, (text(10), f"DataFrame.apply ({SITE}/pandas/core/frame.py:9)", text(32, "feature"))),
        (15, (text(10), f"DataFrame.apply ({SITE}/pandas/core/frame.py:9)", ROWS)),
    ) == [("feature", 10, 0.15), ("Texts.spelled", 8, 0.1), ("rarity", 9, 0.1)]


@pytest.mark.parametrize(
    "stacks",
    [
        pytest.param(
            [(50, (text(12), COMPOSES, text(40, "Flip.__call__"))),
             (50, (text(12), COMPOSES, f"Rotate.forward ({SITE}/torchvision/transforms/transforms.py:1300)"))],
            id="another-transform-of-the-same-list",
        ),
        pytest.param(
            [(50, (LEAF, *CALLS, TONE)),
             (50, (LEAF, *VECTORIZE, f"_get_ufunc ({SITE}/numpy/lib/function_base.py:70)"))],
            id="the-library-at-something-else",
        ),
        pytest.param([(50, (text(11), text(31, "rarity"))), (50, (text(11),))], id="a-call-like-any-other"),
        pytest.param([(100, (LEAF, *CALLS))], id="nothing-is-called-back"),
        pytest.param(
            [(50, (LEAF, *CALLS, TONE)), (50, (f"Leaves.__getitem__ ({TRAIN}:6)", *CALLS))],
            id="another-line",
        ),
    ],
)  # fmt: skip
def test_other_time_stays_where_it_is(stacks):
    assert called_back(*stacks) == []
