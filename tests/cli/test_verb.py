from __future__ import annotations

from typing import Annotated

import pytest
import typer

from perfdoctor.cli.verb import Verb, Verbs


def taken(*words):
    """What a verb with one parameter of each kind is called with."""
    calls = []

    def verb(
        names: Annotated[list[str] | None, typer.Argument()] = None,
        text: Annotated[str | None, typer.Option()] = None,
        count: Annotated[int, typer.Option(min=0)] = 5,
        rate: Annotated[float | None, typer.Option()] = None,
        flag: Annotated[bool, typer.Option("--flag")] = False,
    ) -> None:
        calls.append((names, text, count, rate, flag))

    app = typer.Typer(cls=Verbs, add_completion=False, rich_markup_mode=None)
    app.callback()(lambda: None)
    app.command("verb", cls=Verb)(verb)
    app(["verb", *words], standalone_mode=False)
    return calls


def test_defaults_are_taken_as_they_are():
    assert taken() == [(None, None, 5, None, False)]


def test_text_is_taken_as_typed_and_numbers_are_numbers():
    words = ("a", "7", "--text", "007", "--count", "3", "--rate", "2.5", "--flag")
    assert taken(*words) == [(["a", "7"], "007", 3, 2.5, True)]


@pytest.mark.parametrize("words", [("--count", "three"), ("--count", "-1"), ("--rate", "fast")])
def test_what_is_no_such_number_is_refused(words):
    with pytest.raises(typer.BadParameter):
        taken(*words)
