"""Finds the texts in source code that stand under the name of a secret.

The code need not be whole, as a report shows single lines: it is read by its tokens, not parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from keyword import iskeyword
from typing import NamedTuple

from perfdoctor.redaction import secret_looks as looks
from perfdoctor.redaction.secret_looks import KeptValues

_TOKEN = re.compile(
    r"(?:\b[rRbBfFuUtT]{1,2})?(?:"
    r"(?P<long>'''|\"\"\")(?P<lines>(?:\\[\s\S]|(?!(?P=long))[^\\])*)(?P=long)"
    r"|(?P<short>['\"])(?P<line>(?:\\[\s\S]|(?!(?P=short))[^\\\n])*)(?P=short))"
    r"|(?P<word>[^\W\d]\w*)|(?P<sign>:=|[=!]=|\\[\s\S]|\n|[^\w\s])"
)
_NAME = re.compile(looks.NAME)
_WORD_IN_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_GIVEN = ("=", ":", "or", "else")  # directly behind these stands a value
_VALUES = ("default", "value", "const")  # arguments that give what another one names
_BEGINS = ("\n", ";", "")  # what stands before a statement
_MOST_NAMED = 16  # names that a text is held against, the last of them: no code has more around one


class SecretText(NamedTuple):
    """What a literal says, and where that stands in the code."""

    begin: int
    end: int
    level: KeptValues  # of the name it stands under


class _Token(NamedTuple):
    is_text: bool
    word: str  # what a text says, and any other token itself
    begin: int
    end: int


class _Named(NamedTuple):
    """A place whose values stand under a secret's name."""

    level: KeptValues
    depth: int  # of brackets
    of_call: bool = False  # by another argument: `add_argument("--password", default="x")`
    of_several: bool = False  # `user, password = "ann", "x"`

    @property
    def all_texts(self) -> bool:
        """Whether no value is harmless, wherever in an expression it stands: a password, unlike a token."""
        return self.level <= KeptValues.PATHS or self.of_several


class _NamedTexts:
    """Goes through the tokens, and knows under which names it is."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self.tokens = tokens
        self.named: list[_Named] = []
        self.calls: list[bool] = []  # of each open bracket: whether it is a call's

    def texts(self) -> Iterator[SecretText]:
        for at, token in enumerate(self.tokens):
            if token.is_text:
                yield from self._judged(at)
                self._named_by_text(at)
            else:
                self._passed(at)

    def _judged(self, at: int) -> Iterator[SecretText]:
        token, before = self.tokens[at], self._word(at - 1)
        is_key = self._word(at + 1) == ":" and before in ("{", ",", *_BEGINS)
        levels = [place.level for place in self.named if self._is_value(at, place)]
        if levels and not is_key and any(map(str.isalnum, token.word)):
            yield SecretText(token.begin, token.end, min(levels))

    def _is_value(self, at: int, place: _Named) -> bool:
        """Whether the text at this place is a value of what is named there."""
        before = self._word(at - 1)
        if place.of_call and before == "=":
            return self._word(at - 2) in _VALUES
        return place.of_call or place.all_texts or before in _GIVEN

    def _passed(self, at: int) -> None:
        """What a sign does to the names that are open, and opens."""
        word, depth = self.tokens[at].word, len(self.calls)
        if word in ("(", "[", "{"):
            self.calls.append(word == "(" and self._is_called(at))
        elif word in (")", "]", "}"):
            del self.calls[-1:]
            self.named = [place for place in self.named if place.depth < max(depth, 1)]
        elif word in (",", ";"):
            self.named = [
                place for place in self.named if place.depth < depth or place.of_call or place.of_several
            ]
        elif word == "\n" and not depth:
            self.named.clear()
        elif word in ("=", ":", ":=", "==", "!="):
            self._named_by_target(at, depth)

    def _named_by_target(self, at: int, depth: int) -> None:
        names = [self._name_at(at - 1), *(self._other_targets(at) if self.tokens[at].word == "=" else ())]
        levels = [level for name in names if (level := looks.kept(name)) is not None]
        if levels:
            place = _Named(min(levels), depth, of_several=len(names) > 1)
            if place.all_texts or self.tokens[at].word in ("=", ":", ":="):
                self._open(place)

    def _open(self, place: _Named) -> None:
        self.named = [*self.named[-_MOST_NAMED:], place]

    def _named_by_text(self, at: int) -> None:
        """An argument of a call may say what those behind it are."""
        name = self.tokens[at].word
        among = (self._word(at - 1), self._word(at + 1)) in (("(", ","), (",", ","))
        in_call = bool(self.calls) and self.calls[-1]
        level = looks.kept(name) if among and in_call and _NAME.fullmatch(name) else None
        alone = len(_WORD_IN_NAME.findall(name)) == 1 and not name.startswith("-")
        if level is not None and level is not KeptValues.PLAIN and (level <= KeptValues.PATHS or not alone):
            self._open(_Named(level, len(self.calls), of_call=True))

    def _other_targets(self, at: int) -> list[str]:
        """What a statement assigns to beside the last of its names, where it has several."""
        names, at = [], at - 1
        while self._word(at - 1) in (".", ","):
            at -= 2
            if self._word(at + 1) == ",":
                names.append(self._word(at))
        return names if self._word(at - 1) in _BEGINS and self._word(at) else []

    def _name_at(self, at: int) -> str:
        """The name or the key that ends at this place; nothing where another thing does."""
        if self._word(at) == "]" and at >= 2 and self.tokens[at - 1].is_text and self._word(at - 2) == "[":
            at -= 1
        word = self.tokens[at].word if at >= 0 else ""
        return word if _NAME.fullmatch(word) else ""

    def _is_called(self, at: int) -> bool:
        before = self._word(at - 1)
        return _NAME.fullmatch(before) is not None and not iskeyword(before)

    def _word(self, at: int) -> str:
        """A token that is no text; nothing where a text stands, or the code ends."""
        within = 0 <= at < len(self.tokens) and not self.tokens[at].is_text
        return self.tokens[at].word if within else ""


def under_secret_names(code: str) -> list[SecretText]:
    """The texts in `code` that a secret's name stands for, in their order, with the name's level."""
    return list(_NamedTexts(list(_tokens(code))).texts())


def _tokens(code: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(code):
        text = next((part for part in ("lines", "line") if match[part] is not None), None)
        yield _Token(text is not None, match[text or 0], *match.span(text or 0))
