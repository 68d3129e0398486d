"""What is known of lines that draw a few of many: shared by the tips that find such lines costly."""

from __future__ import annotations

from collections.abc import Iterable

from perfdoctor.facts.user_source.costly_draws import Draw, costly_draw

# Of the time of such lines, what goes: at worst, likely, at best. Where the sums of weights are kept, numpy
# takes 0.2 of it among 10,000 weights, 0.05 among 150,000, 0.02 among 900,000 (256 of them drawn).
GOES = (0.5, 0.9, 1.0)
CURES = {
    Draw.ADDS_WEIGHTS: """\
# it goes over all weights at each call: add them up once ...
cumulative = np.cumsum(weights)
chosen = cumulative.searchsorted(rng.random(count) * cumulative[-1], side="right")
# ... keep their sums in a tree if they change, or draw for many batches at once
# (one may come twice: for replace=False, draw some more and keep the first of each)""",
    Draw.PERMUTES: """\
# it permutes all that it draws from at each call; a generator, made once, does not
rng = np.random.default_rng()
chosen = rng.choice(n, count, replace=False)""",
}


def drawn(texts: Iterable[str | None]) -> str | None:
    """How to draw without going over all, where one of these lines does that; else None."""
    draw = next((draw for text in texts if (draw := costly_draw(text)) is not None), None)
    return None if draw is None else CURES[draw]
