from __future__ import annotations

import pytest

from perfdoctor.facts.user_source.costly_draws import Draw, costly_draw


@pytest.mark.parametrize(
    ("text", "draw"),
    [
        ("idx = np.random.choice(self.size, batch_size, p=probs)", Draw.ADDS_WEIGHTS),
        ("neg = self.rng.choice(len(w), n + 1, replace=False, p=w)", Draw.ADDS_WEIGHTS),
        ("for item in random.choices(items, weights=weights, k=8):", Draw.ADDS_WEIGHTS),
        ("chosen = torch.multinomial(self.priorities, 64)", Draw.ADDS_WEIGHTS),
        ("picked = np.random.choice(n, 64, replace=False)", Draw.PERMUTES),
        ("picked = rng.choice(n, 64, replace=False)", None),
        ("picked = np.random.choice(n, 64)", None),
        ("item = random.choices(items, cum_weights=sums, k=8)", None),
        ("token = torch.multinomial(logits.softmax(-1), 1)", None),
        ("name = choice(names)", None),
        ("x = rng.choice(n, p=", None),
        (None, None),
    ],
)
def test_what_goes_over_all_that_it_draws_from(text, draw):
    assert costly_draw(text) is draw
