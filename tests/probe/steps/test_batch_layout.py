from __future__ import annotations

from textwrap import indent

import pytest

pytest.importorskip("torch")

from perfdoctor.wire.events.training import BatchLayoutEvent
from tests.support.watched import updates, watched

pytestmark = pytest.mark.process

HEAD = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    torch.manual_seed(0); torch.set_num_threads(1)
    STEPS = 6

    def learn(model, batches):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for x in batches:
            optimizer.zero_grad()
            model(x).float().pow(2).mean().backward()
            optimizer.step()

    class Words(nn.Module):
        def __init__(self, body, positions=None):
            super().__init__()
            self.embed, self.body = nn.Embedding(50, 8), body
            self.place = nn.Embedding(64, 8) if positions else None
            self.out = nn.Linear(8, 50)
        def forward(self, x):
            h = self.embed(x)
            if self.place is not None:
                h = h + self.place(torch.arange(x.shape[1]))
            h = self.body(h)
            return self.out(h[0] if isinstance(h, tuple) else h)

    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.GRU(8, 8)
        def forward(self, h):
            lengths = torch.full((h.shape[1],), h.shape[0] - 1)
            return self.body(nn.utils.rnn.pack_padded_sequence(h, lengths))[1]

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.LSTMCell(8, 8)
        def forward(self, h):
            state = None
            for moment in h:
                state = self.cell(moment, state)
            return state[0]

    class Scores(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.1)
        def forward(self, h):
            q = h.unflatten(2, (2, 4)).transpose(1, 2)
            return (self.drop((q @ q.transpose(2, 3)).softmax(3)) @ q).transpose(1, 2).flatten(2)

    def tokens(*shape):
        return [torch.randint(0, 50, shape) for _ in range(STEPS)]

    def encoder(**given):
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, **given), 1)
"""


def counted(records):
    """(samples of each step, the dimensions that were written down)."""
    events = records.ranks[0].of(BatchLayoutEvent)
    return set(updates(records)["samples"][1:].tolist()), [event.dimension for event in events]


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("learn(Words(nn.LSTM(8, 8)), tokens(35, 20))", id="recurrent"),
        pytest.param("learn(Words(nn.LSTM(8, 8)), tokens(12, 20))", id="short-sequences"),
        pytest.param("learn(Words(encoder()), tokens(35, 20))", id="transformer"),
        pytest.param("learn(Words(Packed()), tokens(35, 20))", id="packed"),
        pytest.param("learn(Words(Cells()), tokens(35, 20))", id="cells"),
        pytest.param(
            "embed, body = nn.Embedding(50, 8), nn.LSTM(8, 8)\n"
            "    optimizer = torch.optim.SGD([*embed.parameters(), *body.parameters()], lr=0.01)\n"
            "    for x in tokens(35, 20):\n"
            "        body(embed(x))[0].mean().backward()\n"
            "        optimizer.step(); optimizer.zero_grad()",
            id="parts-called-by-the-script",
        ),
        pytest.param("learn(Words(nn.LSTM(8, 8)), torch.utils.data.DataLoader(tokens(35, 20), None))",
                     id="loader-of-whole-batches"),
    ],
)  # fmt: skip
def test_where_a_module_takes_the_first_dimension_for_time_the_second_holds_the_samples(tmp_path, code):
    samples, dimensions = counted(watched(tmp_path, HEAD + f"\n    {code}\n"))
    assert samples == {20}
    assert 1 in dimensions


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("learn(Words(nn.LSTM(8, 8, batch_first=True)), tokens(35, 20))", id="recurrent"),
        pytest.param("learn(Words(encoder(batch_first=True)), tokens(35, 20))", id="transformer"),
        pytest.param("learn(Words(nn.Identity(), positions=True), tokens(35, 20))", id="positions"),
        pytest.param("learn(Words(Scores()), tokens(35, 20))", id="attention-of-its-own"),
        pytest.param("learn(nn.Linear(20, 2), [torch.randn(35, 20) for _ in range(STEPS)])", id="features"),
        pytest.param(
            "learn(nn.Conv2d(3, 4, 3), [torch.randn(35, 3, 20, 20) for _ in range(STEPS)])", id="pictures"
        ),
    ],
)
def test_where_modules_keep_the_first_dimension_apart_it_holds_the_samples(tmp_path, code):
    assert counted(watched(tmp_path, HEAD + f"\n    {code}\n")) == ({35}, [])


def test_a_layer_with_a_forward_of_the_scripts_tells_nothing(tmp_path):
    code = (
        "class Turned(nn.LSTM):\n"
        "        def forward(self, h): return super().forward(h.transpose(0, 1))\n"
        "    learn(Words(Turned(8, 8)), tokens(35, 20))"
    )
    assert counted(watched(tmp_path, HEAD + f"\n    {code}\n")) == ({0}, [None])


def test_tokens_of_which_no_module_tells_the_dimensions_are_not_counted(tmp_path):
    assert counted(watched(tmp_path, HEAD + "\n    learn(Words(nn.Identity()), tokens(35, 20))\n")) == (
        {0},
        [None],
    )


FRAMES = """
class Frames(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 4, 3)
    def forward(self, x):
        return self.body(x.flatten(0, 1)).unflatten(0, x.shape[:2])
batches = [torch.randn(6, 4, 3, 8, 8) for _ in range(STEPS)]
"""


def test_pictures_of_two_dimensions_that_a_script_puts_together_may_be_of_moments_or_of_samples(tmp_path):
    found = counted(watched(tmp_path, HEAD + indent(FRAMES + "learn(Frames(), batches)", " " * 4)))
    assert found == ({0}, [None])


def test_pictures_of_two_dimensions_from_a_loader_are_of_its_samples(tmp_path):
    loaded = "learn(Frames(), torch.utils.data.DataLoader(torch.randn(36, 4, 3, 8, 8), batch_size=6))"
    found = counted(watched(tmp_path, HEAD + indent(FRAMES + loaded, " " * 4)))
    assert found == ({6}, [])


def test_square_batches_are_looked_at_again(tmp_path):
    code = "learn(Words(nn.LSTM(8, 8)), [*tokens(20, 20)[:2], *tokens(35, 20)])"
    records = watched(tmp_path, HEAD + f"\n    {code}\n")
    assert updates(records)["samples"][-3:].tolist() == [20] * 3  # a look at all calls may come between


def test_a_call_that_fails_is_looked_at_and_the_next_one_as_well(tmp_path):
    records = watched(
        tmp_path,
        HEAD
        + """
    model, failed = Words(nn.LSTM(8, 8)), []
    def fail(module, args):
        if not failed:
            failed.append(module)
            raise ValueError("the first batch is broken")
    next(part for part in model.modules() if isinstance(part, nn.LSTM)).register_forward_pre_hook(fail)
    try:
        learn(model, tokens(35, 20))
    except ValueError:
        learn(model, tokens(35, 20))
    """,
    )
    assert counted(records)[0] == {20}


@pytest.mark.parametrize("plays", ["", "torch.no_grad()"])
@pytest.mark.parametrize(("given", "samples"), [("torch.rand(4)", 0), ("torch.rand(3, 4)", 3)])
def test_what_a_policy_observes_at_once_is_one_sample_not_as_many_as_it_has_numbers(
    tmp_path, plays, given, samples
):
    code = f"""
    policy = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    for _ in range(STEPS):
        for _ in range(5):
            with {plays or "torch.enable_grad()"}:
                policy({given})
        optimizer.zero_grad()
        policy({given}).sum().backward()
        optimizer.step()
    """
    assert counted(watched(tmp_path, HEAD + code))[0] == {samples}


LOADED = """
    class Texts(torch.utils.data.Dataset):
        def __len__(self): return 64
        def __getitem__(self, i): return torch.randint(0, 50, (LENGTH + i % 3,))
    def collate(items):
        return nn.utils.rnn.pad_sequence(items, batch_first=FIRST)
    def main():
        loader = torch.utils.data.DataLoader(Texts(), batch_size=20, collate_fn=collate)
        learn(Words(nn.Identity()), loader)
    main()
"""


@pytest.mark.parametrize("length", [10, 40])
@pytest.mark.parametrize("first", [True, False])
def test_a_loader_that_tells_its_batch_size_tells_the_dimension(tmp_path, length, first):
    code = HEAD + LOADED.replace("LENGTH", str(length)).replace("FIRST", str(first))
    records = watched(tmp_path, code)
    assert updates(records)["samples"][1:].tolist() == [20, 20, 4]
    assert int(records.ranks[0].loader["samples"].sum()) == 64
    told = [(event.dimension, event.told_by) for event in records.ranks[0].of(BatchLayoutEvent)]
    assert told == ([] if first else [(1, "DataLoader")] * 4)


OF_ONE = """
    class Batches(torch.utils.data.Dataset):
        def __len__(self): return 6
        def __getitem__(self, i): return torch.randn(SIZES)
    def main():
        loader = torch.utils.data.DataLoader(Batches(), batch_size=1COLLATE)
        learn(nn.Linear(20, 2), (GIVEN for x in loader))
    main()
"""


@pytest.mark.parametrize(
    ("sizes", "collate", "given", "told"),
    [
        pytest.param("35, 20", ", collate_fn=lambda items: items[0]", "x", True, id="as it is"),
        pytest.param("35, 20", "", "x[0]", True, id="taken out"),
        pytest.param("20", "", "x", False, id="one sample"),
        pytest.param("35, 20", "", "x", False, id="one sequence"),
        pytest.param("35, 20", "", "x.transpose(0, 1)", False, id="one sequence with time first"),
    ],
)
def test_a_batch_of_one_that_a_model_is_given_as_many_rows_is_told(tmp_path, sizes, collate, given, told):
    code = OF_ONE.replace("SIZES", sizes).replace("COLLATE", collate).replace("GIVEN", given)
    events = watched(tmp_path, HEAD + code).ranks[0].of(BatchLayoutEvent)
    of_one = {(event.rows, event.columns, event.dimension) for event in events if event.of_one}
    assert of_one == ({(35, 20, None)} if told else set())
