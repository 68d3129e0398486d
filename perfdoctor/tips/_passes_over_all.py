"""What is known of lines that go over all for a few: shared by the tips that find such lines costly."""

from __future__ import annotations

from perfdoctor.facts.user_source.passes_over_all import PassOverAll, pass_over_all

# Of the time of such lines, what goes: at worst, likely, at best. Where the sums of weights are kept, numpy
# takes 0.2 of it among 10,000 weights, 0.05 among 150,000, 0.02 among 900,000 (256 of them drawn). Searches
# are taken to be like draws: no bench measures them.
GOES = (0.5, 0.9, 1.0)
CURES = {
    PassOverAll.ADDS_WEIGHTS: """\
# it goes over all weights at each call: add them up once ...
cumulative = np.cumsum(weights)
chosen = cumulative.searchsorted(rng.random(count) * cumulative[-1], side="right")
# ... keep their sums in a tree if they change, or draw for many batches at once
# (one may come twice: for replace=False, draw some more and keep the first of each)""",
    PassOverAll.PERMUTES: """\
# it permutes all that it draws from at each call; a generator, made once, does not
rng = np.random.default_rng()
chosen = rng.choice(n, count, replace=False)""",
    PassOverAll.COMPARES_ROWS: """\
# it compares all rows at each call: sort them into groups once, in __init__ ...
rows_of = dict(list(table.groupby("key")))
# ... and look them up; in a sorted column, .searchsorted finds a range
rows = rows_of[key]""",
    PassOverAll.COMPARES_VALUES: """\
# it compares all values at each call: sort them once, in __init__ ...
order = np.argsort(values, kind="stable")
ordered = values[order]
# ... then the places of one value lie side by side
places = order[slice(*ordered.searchsorted([wanted, wanted + 1]))]  # of whole numbers""",
    PassOverAll.COMPARES_ITEMS: """\
# it compares all items at each call: sort them into lists once, in __init__ ...
items_of = collections.defaultdict(list)
for item in items:
    items_of[item.key].append(item)
# ... and look them up
found = items_of[key]""",
}


def cure(text: str | None) -> str | None:
    """How to do without going over all, where a line does that; else None."""
    passed = pass_over_all(text)
    return None if passed is None else CURES[passed]
