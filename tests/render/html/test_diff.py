from __future__ import annotations

import pytest

from perfdoctor.render.html.diff import diff

WORKERS = "DataLoader(..., num_workers=2, persistent_workers=True)"


def changed(code, *lines):
    return ["".join((line.sign, line.before, line.changed, line.after)) for line in diff(code, lines)]


@pytest.mark.parametrize(
    ("code", "before", "after"),
    [
        ("DataLoader(..., num_workers=2)", "x = DataLoader(data, batch_size=8)  # a", ", num_workers=2"),
        (
            "DataLoader(..., num_workers=2)",
            "x = torch.utils.data.DataLoader(d, num_workers=0)",
            "num_workers=2",
        ),
        ("DataLoader(..., num_workers=2)", "x = DataLoader()", "DataLoader(num_workers=2)"),
        ("DataLoader(..., num_workers=2)", "x = DataLoader(d, **more)", "**more, num_workers=2)"),
        ("DataLoader(..., num_workers=2)", "for x in DataLoader(d):", "DataLoader(d, num_workers=2):"),
        ("batch_size=64", "x = DataLoader(d, batch_size=8)", "batch_size=64)"),
        ("torch.optim.Adam(..., fused=True)", "o = Adam(ä('é'), lr=0.1)", "lr=0.1, fused=True)"),
    ],
)
def test_a_call_gets_the_arguments(code, before, after):
    gone, come = changed(code, before)
    assert gone == f"−{before}"
    assert after in come


def test_a_call_over_several_lines_is_changed_where_its_last_argument_stands():
    lines = ("    loader = DataLoader(", "        data,", "        num_workers=0,", "    )", "    next(x)")
    assert changed(WORKERS, *lines) == [
        "loader = DataLoader(",
        "    data,",
        "−    num_workers=0,",
        "+    num_workers=2, persistent_workers=True,",
        ")",
    ]


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("torch.from_numpy(array).float()\nmodel.float()", "x = array.float()"),
        ("# no gc.collect() in the loop", "gc.collect()"),
        (WORKERS, "x = load(data)"),
        (WORKERS, "pair = DataLoader(a), DataLoader(b)"),
        (WORKERS, "x = DataLoader(data, num_workers=2, persistent_workers=True)"),
        (WORKERS, "x = DataLoader((data))"),
        (WORKERS, "x = DataLoader(y for y in data)"),
        (WORKERS, "not ( python"),
        ("batch_size=64", "x = DataLoader(d)"),
        ("x = (", "x"),
    ],
)
def test_where_it_is_not_clear_what_to_change_there_is_no_diff(code, line):
    assert diff(code, [line]) == ()


def test_only_what_changes_is_marked():
    gone, come = diff("batch_size=64", ["x = DataLoader(d, batch_size=8)"])
    assert (gone.changed, come.changed) == ("8", "64")
