from __future__ import annotations

import pytest

from perfdoctor.model.tweak import Tweak
from perfdoctor.probe.trial.tweak import BITWISE, PATH, ROUNDING, Count, OneOf
from perfdoctor.render.pages import tweaks
from perfdoctor.trials.settings import tweak_catalogue
from tests.support.drawn import drawn

DOC = "Compute in 16 bits.\n\n## What changes\nA lot."
KNOWN = [
    Tweak("amp", "Compute in 16 bits", "--amp", ROUNDING, None, {"--amp-dtype": OneOf("bf16", "fp16")}, DOC),
    Tweak("batch-size", "Use batches of N", "--batch-size", PATH, Count(1, 9, auto=True), {}, ""),
    Tweak("workers", "Use N workers", "--workers", BITWISE, Count(0, 9), {}, ""),
]


def test_tweaks_stand_below_what_they_do_to_the_result():
    lines = drawn(tweaks.page(KNOWN, tweak_catalogue.RESULTS)).splitlines()
    found = [line.strip().split(":")[0].split("  ")[0] for line in lines if line.strip()]
    assert found[:7] == [
        "bit for bit",
        "--workers N",
        "within rounding",
        "--amp",
        "with --amp-dtype bf16|fp16",
        "another path",
        "--batch-size N|auto",
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_page(width):
    assert max(
        map(len, drawn(tweaks.page(tweak_catalogue.tweaks(), tweak_catalogue.RESULTS), width).splitlines())
    ) <= min(width, 100)


def test_every_tweak_is_listed():
    page = drawn(tweaks.page(tweak_catalogue.tweaks(), tweak_catalogue.RESULTS), 100)
    assert all(f"  {tweak.flag}" in page for tweak in tweak_catalogue.tweaks())


def test_a_tweak_is_explained_by_its_own_page_with_what_its_flags_take():
    page = tweaks.explained(KNOWN[0])
    assert page.startswith("# amp\n\n**Compute in 16 bits.**\n")
    assert "- `--amp`: no value\n- `--amp-dtype`: one of bf16, fp16\n- result: within rounding\n" in page
    assert page.endswith("## What changes\nA lot.\n")
