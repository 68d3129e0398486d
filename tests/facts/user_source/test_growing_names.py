from __future__ import annotations

import pytest

from perfdoctor.facts.user_source.growing_names import growing_name, writes_all
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
SCRIPT = """\
def fit(model, self):
    losses, seen, bank, count, kept = [], [], None, 0, {}
    for x in data:
        losses.append(model(x).item())
        seen += [x]
        bank = torch.cat([bank, x])
        count += 1
        kept["all"].append(x)
        self.errors.append(x)
        limit = median(losses)
        worst = max(seen)
        near = bank @ x
        rate = base / count
        mean = sum(kept["all"])
        last = sum(self.errors) / len(self.errors)
        other = model(x).sum()
        weight = weight * 0.9
"""
ANCHORS = {(TRAIN, 16)}
SOURCES = Sources(source_of(train=SCRIPT))


@pytest.mark.parametrize(
    ("line", "name", "adds"),
    [
        (10, "losses", 4),
        (11, "seen", 5),
        (12, "bank", 6),
        (6, "bank", 6),
        (14, "kept", 8),
        (15, "self.errors", 9),
    ],
)
def test_a_line_that_works_on_what_grows_tells_its_name_and_the_line_that_adds_to_it(line, name, adds):
    found, at = growing_name(SOURCES, Location(TRAIN, line, "fit"), ANCHORS)
    assert (found, at.line) == (name, adds)
    assert at.text == SCRIPT.splitlines()[adds - 1].strip()


@pytest.mark.parametrize("line", [4, 5, 13, 16, 17, 99])
def test_numbers_and_what_stays_as_long_as_it_is_grow_no_list(line):
    assert growing_name(SOURCES, Location(TRAIN, line, "fit"), ANCHORS) is None


DECODER = """\
class Decoder(nn.Module):
    def forward(self, x, h):
        outputs = []
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
            outputs.append(self.head(h))
            seen = torch.stack(outputs, 1)
        return torch.stack(outputs, 1)
"""
COLLATE = """\
def collate(items):
    xs = []
    for x in items:
        xs.append(x)
    return torch.stack(xs)
"""
EPOCHS = """\
for epoch in range(9):
    losses = []
    for batch in loader:
        losses.append(train(batch))
        mean = sum(losses)
"""
BOUNDED = """\
recent = deque(maxlen=50)
for batch in loader:
    train(batch)
    recent.append(loss)
    mean = sum(recent)
"""
POPPED = BOUNDED.replace("deque(maxlen=50)", "[]") + "    if full: recent.pop(0)\n"
CUT = """\
bank = None
for batch in loader:
    train(batch)
    bank = torch.cat([bank, keys])[-4096:]
    near = q @ bank.T
"""
SAME_NAME = """\
def collate(items):
    out = []
    for item in items:
        out.append(item)
def forward(x):
    out = conv(x)
    return out.mean()
"""
LOADED = """\
class Rows:
    def __init__(self, path):
        self.rows = []
        for row in open(path):
            self.rows.append(row)
    def __getitem__(self, index):
        return sum(self.rows)
"""
OF_EPOCHS = """\
class Metrics:
    def on_epoch_start(self):
        self.losses = []
    def add(self, loss):
        self.losses.append(loss)
    def mean(self):
        return sum(self.losses)
"""


@pytest.mark.parametrize(
    ("text", "line", "anchor"),
    [
        pytest.param(DECODER, 7, None, id="made-in-each-call-and-read-in-its-loop"),
        pytest.param(DECODER, 8, None, id="made-in-each-call"),
        pytest.param(COLLATE, 5, None, id="of-a-batch"),
        pytest.param(EPOCHS, 5, 4, id="of-an-epoch"),
        pytest.param(BOUNDED, 5, 3, id="of-a-bounded-length"),
        pytest.param(BOUNDED.replace("recent =", "recent: Any ="), 5, 3, id="with-its-type"),
        pytest.param(POPPED, 5, 3, id="taken-out-of"),
        pytest.param(CUT, 5, 3, id="cut"),
        pytest.param(SAME_NAME, 7, None, id="another-functions"),
        pytest.param(LOADED, 7, None, id="filled-before-training"),
        pytest.param(OF_EPOCHS, 7, None, id="made-anew-by-another-method"),
    ],
)
def test_what_is_made_anew_or_stays_short_does_not_grow(text, line, anchor):
    at, anchors = Location(TRAIN, line, "fit"), {(TRAIN, anchor)}
    assert growing_name(Sources(source_of(train=text)), at, anchors) is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (POPPED.replace("recent.pop(0)", "pass"), 5),
        (OF_EPOCHS.replace("on_epoch_start", "__init__"), 7),
        (CUT.replace("[-4096:]", ""), 5),
    ],
)
def test_what_is_made_once_grows(text, line):
    assert (
        growing_name(Sources(source_of(train=text)), Location(TRAIN, line, "fit"), {(TRAIN, 3)}) is not None
    )


@pytest.mark.parametrize(
    ("text", "name", "writes"),
    [
        ("json.dump(self.rows, f, indent=1)", "self.rows", True),
        ("f.write(json.dumps(rows))", "rows", True),
        ('json.dump(rows["loss"], f)', "rows", True),
        ('np.save("rows.npy", np.stack(rows))', "rows", True),
        ("pd.DataFrame(self.rows).to_csv(path)", "self.rows", True),
        ("csv.writer(f).writerow(row)", None, True),
        ('f.write(f"{np.mean(rows)}")', "rows", False),
        ("f.write(str(rows[-1]))", "rows", False),
        ('f.write(f"{len(rows)}: {rows}")', "rows", True),
        ("print(rows)", "rows", False),
        ("rows.sort()", None, False),
    ],
)
def test_what_writes_all_that_grows(text, name, writes):
    sources = Sources(source_of(train=text))
    assert writes_all(sources, Location("/home/me/train.py", 1), name) is writes
