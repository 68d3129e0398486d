from __future__ import annotations

import pytest

from perfdoctor import catalogue
from perfdoctor.catalogue import Tweak
from perfdoctor.probe.tweak import BITWISE, PATH, ROUNDING, Count, OneOf
from perfdoctor.render import tweaklist

DOC = "Compute in 16 bits.\n\n## What changes\nA lot."
KNOWN = [
    Tweak("amp", "Compute in 16 bits", "--amp", ROUNDING, None, {"--amp-dtype": OneOf("bf16", "fp16")}, DOC),
    Tweak("batch-size", "Use batches of N", "--batch-size", PATH, Count(1, 9, auto=True), {}, ""),
    Tweak("workers", "Use N workers", "--workers", BITWISE, Count(0, 9), {}, ""),
]


def test_tweaks_stand_below_what_they_do_to_the_result():
    lines = tweaklist.page(KNOWN, 80).splitlines()
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
    assert max(map(len, tweaklist.page(catalogue.tweaks(), width).splitlines())) <= min(width, 100)


def test_every_tweak_is_listed():
    page = tweaklist.page(catalogue.tweaks(), 100)
    assert all(f"  {tweak.flag}" in page for tweak in catalogue.tweaks())


def test_a_tweak_is_explained_by_its_own_page_with_what_its_flags_take():
    page = tweaklist.explained(KNOWN[0])
    assert page.startswith("# amp\n\n**Compute in 16 bits.**\n")
    assert "- `--amp`: no value\n- `--amp-dtype`: one of bf16, fp16\n- result: within rounding\n" in page
    assert page.endswith("## What changes\nA lot.\n")
