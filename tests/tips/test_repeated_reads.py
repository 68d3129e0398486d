from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.repeated_reads import RepeatedRead, RepeatedReadFacts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location
from perfdoctor.tips.repeated_reads import repeated_reads as tip
from tests.support.facts import gain

READ = Location("/home/me/data.py", 12, "Table.__init__", "frame = pd.read_csv(path)")
MADE = Location("/home/me/train.py", 40, "main", "loader = DataLoader(Table(path))")
LINE = RepeatedRead(READ, MADE, 1, 25, 0.5, Bottleneck.HOST)


def test_says_how_often_which_line_reads_the_same_file():
    advice = tip(RepeatedReadFacts((LINE,)))
    assert advice is not None
    assert advice.because == (
        "50% of the training time reads files again that have not changed",
        "line 12 takes 50%: it reads the same file 25 times: `frame = pd.read_csv(path)`",
    )
    assert (advice.at, advice.bottleneck) == ((READ, MADE), Bottleneck.HOST)
    assert advice.code == "# once, before the loop, and handed on:\nframe = pd.read_csv(path)"
    assert gain(advice).likely == pytest.approx(2.0)


def test_several_files_of_a_line_are_kept_by_their_path():
    advice = tip(RepeatedReadFacts((replace(LINE, files=8),)))
    assert advice is not None
    assert "it reads each of 8 files up to 25 times" in advice.because[1]
    assert "lru_cache" in str(advice.code)


@pytest.mark.parametrize("lines", [(), (replace(LINE, share=0.04),)])
def test_is_silent(lines):
    assert tip(RepeatedReadFacts(lines)) is None
