from __future__ import annotations

import pytest

from perfdoctor.facts.user_source.passes_over_all import PassOverAll, pass_over_all


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ("idx = np.random.choice(self.size, batch_size, p=probs)", PassOverAll.ADDS_WEIGHTS),
        ("neg = self.rng.choice(len(w), n + 1, replace=False, p=w)", PassOverAll.ADDS_WEIGHTS),
        ("for item in random.choices(items, weights=weights, k=8):", PassOverAll.ADDS_WEIGHTS),
        ("chosen = torch.multinomial(self.priorities, 64)", PassOverAll.ADDS_WEIGHTS),
        ("picked = np.random.choice(n, 64, replace=False)", PassOverAll.PERMUTES),
        ("picked = rng.choice(n, 64, replace=False)", None),
        ("picked = np.random.choice(n, 64)", None),
        ("item = random.choices(items, cum_weights=sums, k=8)", None),
        ("token = torch.multinomial(logits.softmax(-1), 1)", None),
        ("name = choice(names)", None),
        ("op = random.choices(self.ops, weights=[1, 2, 1])[0]", None),  # a few, written out
        ("kind = rng.choice(3, p=(0.2, 0.3, 0.5))", None),
        ("x = rng.choice(n, p=", None),
        (None, None),
    ],
)
def test_what_goes_over_all_that_it_draws_from(text, passed):
    assert pass_over_all(text) is passed


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        (
            'rows = self.log[self.log["customer"] == self.customers[index]].sort_values("day")',
            PassOverAll.COMPARES_ROWS,
        ),
        (
            'days = table[(table["station"] == s) & table["date"].between(begin, end)]',
            PassOverAll.COMPARES_ROWS,
        ),
        (
            'boxes = self.boxes.loc[self.boxes["image"] == name, COLUMNS].to_numpy()',
            PassOverAll.COMPARES_ROWS,
        ),
        ('rows = self.notes[self.notes["image"].map(os.path.basename) == name]', PassOverAll.COMPARES_ROWS),
        ('rows = self.notes[self.notes["image"].str.lower() == name]', PassOverAll.COMPARES_ROWS),
        ('rows = notes[notes["image"].str.startswith(name)]', PassOverAll.COMPARES_ROWS),
        ("rows = self.table[self.table.user == user]", PassOverAll.COMPARES_ROWS),
        ("rows = self.table.loc[~(self.table.user == user), names]", PassOverAll.COMPARES_ROWS),
        ('rows = self.table.query("user == @user")', PassOverAll.COMPARES_ROWS),
        ('(self.log["patient"] == patient) & (self.log["day"] < day)', PassOverAll.COMPARES_ROWS),
        ("places = np.flatnonzero(self.owners == user)", PassOverAll.COMPARES_VALUES),
        ("places = (self.edges[0] == node).nonzero()[0]", PassOverAll.COMPARES_VALUES),
        ("near = ~np.isin(self.owners, users)", PassOverAll.COMPARES_VALUES),
        ("mask = (self.source == node) | (self.target == node)", PassOverAll.COMPARES_VALUES),
        ("mine = self.owners == int(user)", PassOverAll.COMPARES_VALUES),
        ("mine = self.days == today - 1", PassOverAll.COMPARES_VALUES),
        ('days = self.log[self.log["day"] < day]', PassOverAll.COMPARES_ROWS),
        ("mine = [row for row in self.rows if row['user'] == user]", PassOverAll.COMPARES_ITEMS),
        ("mine = [i for i, row in enumerate(self.rows) if row.user == user]", PassOverAll.COMPARES_ITEMS),
        ("row = next(row for row in self.names.values() if row.key == key)", PassOverAll.COMPARES_ITEMS),
        # of a batch or of an item
        ("loss = loss[labels == 1].mean()", None),
        ("kept = np.argwhere(mask)", None),
        ("x = torch.where(x > 0, x, y)", None),
        ("words = [word for word in text.split() if word == key]", None),
        ("words = [word.lower() for word in self.words]", None),
        ("flip = self.rng.random() < 0.5", None),
        ("part = self.values[begin:end] == wanted", None),
        ('x = self.table["a"].to_numpy()[index]', None),
        ("rows = self.table.query(text)", None),
        ("known = key in self.rows", None),
        # against what all items share: a threshold, a share, a number that stands for nothing
        ("noise[torch.rand(noise.shape) < self.mask_prob] = 0", None),
        ("valid = points[:, 2] > self.ground", None),
        ("keep = noise > self.drop", None),
        ("hidden = labels == self.ignored", None),
        ("near = np.where(self.reach > depth)", None),
        ("kept = batch.labels != -100", None),
        ("counts = self.labels == IGNORED", None),
        ("done = self.place == self.goal", None),
        ("on_device = args.device == 'cuda'", None),
        ('ids = sample["tokens"] == self.pad_id', None),
        ('ids = self.sample["tokens"] == self.pad_id', None),
        ('boxes = boxes[boxes["score"] > lowest]', None),
        ("masks = masks[masks.sum((1, 2)) == area]", None),
        ("found = [box for box in sample.boxes if box.label == self.wanted]", None),
        ("mask = self.owners == users[:, None]", None),
        ("mask = self.owners == users.unsqueeze(1)", None),
    ],
)
def test_what_compares_all_to_find_a_few(text, passed):
    assert pass_over_all(text) is passed
