from __future__ import annotations


def test_try_says_that_it_is_not_there_yet_and_how_to_do_it_by_hand(perfdoctor):
    shown = perfdoctor("try", "--workers", "4", "--amp")
    assert shown.returncode == 2
    assert shown.stdout == ""
    sentence, hint = shown.stderr.splitlines()
    assert sentence == "perfdoctor: try is not available in this version"
    assert "by hand" in hint
