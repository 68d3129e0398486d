from collections import UserDict
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.observers import padding
from perfdoctor.probe.observers.padding import PaddingSamples
from tests.support.sessions import Session
from tests.support.watched import watched

pytestmark = pytest.mark.process

LENGTHS = [3, 40, 17, 9]


def tokens(width=64, lengths=LENGTHS, fill=0, leading=False, rows=None):
    """Sequences of values from 1 on, filled up to one width."""
    values = torch.arange(1, width + 1).repeat(len(lengths), 1)
    padded = values.where(torch.arange(width) < torch.tensor(lengths)[:, None], fill)
    return padded.flip(1) if leading else padded


def frames(lengths=LENGTHS, width=64, fill=0.0, leading=False):
    """Sequences of frames of features."""
    values = torch.rand(len(lengths), width, 8) + 1
    padded = values.where((torch.arange(width) < torch.tensor(lengths)[:, None])[..., None], fill)
    return padded.flip(1) if leading else padded


def looks(*batches):
    """What is written down of batches of one loader."""
    session = Session()
    rows = PaddingSamples(session, torch)
    for batch in batches:
        rows.sample(1, batch)
    return session.events


def test_sequences_that_are_filled_up_at_their_end_are_measured():
    (event,) = looks((tokens(), torch.zeros(4)))
    assert event == {
        "event": "padding",
        "loader": 1,
        "place": 0,
        "width": 64,
        "lengths": LENGTHS,
        "fill": 0,
        "leading": False,
        "inside": 0,
        "kinds": 40,
        "masked": False,
    }


def test_sequences_that_are_filled_up_at_their_beginning_are_measured():
    (event,) = looks([tokens(fill=-100, leading=True)])
    assert (event["lengths"], event["fill"], event["leading"]) == (LENGTHS, -100, True)


@pytest.mark.parametrize("leading", [False, True])
@pytest.mark.parametrize("invert", [False, True], ids=["marks-texts", "marks-padding"])
def test_a_mask_beside_them_confirms_it_and_is_no_sequence_itself(leading, invert):
    texts = tokens(leading=leading)
    mask = texts == 0 if invert else (texts != 0).long()
    (event,) = looks({"input_ids": texts, "attention_mask": mask})
    assert event["masked"]
    other = torch.ones_like(mask)
    (event,) = looks({"input_ids": texts, "attention_mask": other})
    assert not event["masked"]


@pytest.mark.parametrize("lengths", [LENGTHS, [64, 64, 64, 3], [64] * 4])
@pytest.mark.parametrize("fill", [0.0, -1.5])
@pytest.mark.parametrize(
    ("told", "leading"),
    [
        *((told, leading) for told in ("mask", "ignored", "ones") for leading in (False, True)),
        ("lengths", False),
    ],
)
def test_frames_of_features_end_where_a_mask_or_lengths_tell(lengths, fill, leading, told):
    batch = frames(lengths, fill=fill, leading=leading)
    mask = (batch != fill).all(2)
    beside = {"mask": mask, "ignored": ~mask, "ones": mask.float(), "lengths": torch.tensor(lengths)}[told]
    (event,) = looks({"x": batch, "told": beside, "y": torch.tensor([1, 2, 3, 4])})
    assert (event["width"], event["lengths"], event["masked"]) == (64, lengths, True)
    assert event["leading"] == (leading and lengths != [64] * 4)
    (event,) = looks((batch.transpose(1, 2), beside))
    assert (event["width"], event["lengths"]) == (64, lengths)


def test_batches_may_be_nested_and_mappings_of_other_kinds():
    texts, answers = tokens(), tokens(32, [5, 6, 7, 32])
    (one, two) = looks([{"pair": (UserDict(texts=texts), [answers.int()])}, {"name": "a"}])
    assert (one["place"], one["width"]) == (0, 64)
    assert (two["place"], two["width"]) == (1, 32)


def test_the_value_itself_and_all_others_are_counted_inside():
    texts = tokens()
    texts[1, :10] = 0
    (event,) = looks(texts)
    assert (event["lengths"], event["inside"], event["kinds"]) == (LENGTHS, 10, 40)


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(torch.rand(4, 64).round(), id="floats"),
        pytest.param((torch.rand(4, 64) < 0.1).long(), id="many-labels"),
        pytest.param(torch.rand(4, 64) < 0.1, id="booleans"),
        pytest.param(torch.zeros(4, 32, 32, dtype=torch.long), id="maps-of-classes"),
        pytest.param(torch.zeros(4, 784, dtype=torch.uint8), id="flat-images"),
        pytest.param(torch.arange(40).reshape(4, 10), id="table"),
        pytest.param(torch.arange(64), id="one-row"),
        pytest.param((torch.rand(4, 3, 32, 32), tokens()), id="captions-of-images"),
        pytest.param((tokens(), torch.rand(4, 64, 8)), id="labels-of-features"),
        pytest.param((frames(), tokens()), id="labels-of-padded-features"),
        pytest.param((frames(), torch.tensor([3, 40, 17, 10])), id="features-that-end-elsewhere"),
        pytest.param(
            (frames(), torch.arange(64).expand(4, 64) % 7 == 0), id="features-some-of-which-are-masked"
        ),
        pytest.param((torch.rand(4, 64, 8), torch.tensor(LENGTHS)), id="numbers-of-classes"),
        pytest.param(
            (torch.rand(4, 64, 8).requires_grad_(), torch.tensor(LENGTHS)), id="features-of-a-model"
        ),
        pytest.param((torch.zeros(0, 64, 8), torch.zeros(0, 64).bool()), id="no-features"),
        pytest.param(tokens().to_sparse(), id="sparse"),
        pytest.param(tokens().to("meta"), id="on-another-device"),
        pytest.param(torch.zeros(0, 64, dtype=torch.long), id="empty"),
        pytest.param(["a text", "another"], id="texts"),
        pytest.param(None, id="nothing"),
    ],
)
def test_what_holds_no_sequences_or_more_than_them_is_not_told(batch):
    assert looks(batch) == []


def test_tensors_without_elements_are_left_alone():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        assert looks(mode.from_tensor(tokens())) == []
    found = []
    torch.vmap(lambda texts: found.extend(looks(texts)) or texts)(tokens().repeat(2, 1, 1))
    assert found == []


def test_tensors_that_were_looked_at_can_be_resized():
    texts, features = tokens(), frames()
    assert looks(texts)
    assert looks({"x": features, "lengths": torch.tensor(LENGTHS)})
    for tensor in (texts, features):
        tensor.resize_(10_000)
        tensor.untyped_storage().resize_(0)
    assert looks({"x": features, "lengths": torch.tensor(LENGTHS)}) == []


@pytest.mark.shows("randomness")
def test_a_look_draws_nothing_and_uses_no_default_device():
    texts, state = tokens(), torch.random.get_rng_state()
    with torch.device("meta"):
        assert [event["lengths"] for event in looks(texts)] == [LENGTHS]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_of_each_loader_so_many_batches_are_read():
    rows = PaddingSamples(Session(), torch)
    for loader in (1, 2):
        for _ in range(padding.SAMPLES_MAX + 3):
            rows.sample(loader, tokens())
    assert len(rows.session.events) == 2 * padding.SAMPLES_MAX


@pytest.mark.parametrize(("height", "width"), [(1000, 32), (100, 4096), (3, 16_384)])
def test_of_large_batches_rows_from_everywhere_are_read(height, width):
    texts = tokens(width, [width // 2] * height)
    (event,) = looks(texts)
    most = min(height, padding.ROWS_MAX, padding.ELEMENTS_MAX // width)
    assert most / 2 < len(event["lengths"]) <= most
    assert looks(tokens(padding.ELEMENTS_MAX + 1)) == []


def test_what_a_model_is_called_with_tells_only_where_loaders_deliver_no_tensors():
    texts, session = tokens(), Session()
    rows = PaddingSamples(session, torch)
    rows.sample(1, ["a text"])
    rows.called((SimpleNamespace(), texts), {"mask": texts != 0})
    assert [(event["loader"], event["masked"]) for event in session.events] == [(padding.MODELS, True)]
    rows.sample(1, torch.rand(3))
    rows.called((SimpleNamespace(), texts), {})
    assert len(session.events) == 1


SCRIPT = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader
    torch.manual_seed(0)
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(50, 4), nn.Linear(4, 2)
        def forward(self, texts):
            return self.head(self.words(texts).mean(1))
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    texts = torch.randint(1, 50, (80, 32))
    texts[torch.arange(32) >= torch.randint(1, 32, (80, 1))] = 0
    {batches}
        nn.functional.cross_entropy(net(batch), torch.zeros(len(batch), dtype=torch.long)).backward()
        opt.step(); opt.zero_grad()
"""


@pytest.mark.parametrize(
    ("batches", "loader"),
    [
        pytest.param("for batch in DataLoader(texts, 4, num_workers=1):", 1, id="loader"),
        pytest.param("for batch in texts.split(4):", padding.MODELS, id="calls"),
    ],
)
def test_batches_of_a_script_are_looked_at(tmp_path, batches, loader):
    events = watched(tmp_path, SCRIPT.format(batches=batches)).ranks[0].of("padding")
    assert len(events) >= 3
    assert {(event["loader"], event["fill"]) for event in events} == {(loader, 0)}
