"""Tweaks as they are typed: `--workers 8 --amp` becomes Settings."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.trial import Setting
from perfdoctor.model.tweak import Tweak

LIST = "perfdoctor try --list"
EXAMPLE = "perfdoctor try --workers 4 -- train.py"
VALUE = "value"  # what a tweak's function gets its own value as

Given = Mapping[str, "str | None"]  # flags as typed and their words


def read(
    words: Sequence[str],
    tweaks: Sequence[Tweak],
    options: Sequence[str] = (),
    command: Sequence[str] | None = None,
) -> tuple[Setting, ...]:
    """The settings that `words` ask for, in the order of their flags; a value `auto` stays as it is.

    A flag that goes with a tweak (`--amp-dtype bf16`) implies that tweak, unless it takes a value of its own.
    `options` are further flags that a mistyped one may have meant; `command` is what `perfdoctor run --with`
    applies them to. Raises PerfdoctorError for anything that is no tweak, for a value that is missing or not
    allowed, and for a flag that is given twice.
    """
    owners = {flag: tweak for tweak in tweaks for flag in _takes(tweak)}
    words_of: dict[str, str | None] = {}
    for flag, word in _pairs(words, owners, options, command):
        if flag in words_of:
            raise PerfdoctorError(f"{flag} is given twice", "give each tweak only once")
        words_of[flag] = word
    tweaks_named = {owners[flag].id: owners[flag] for flag in words_of}
    return tuple(_setting(tweak, words_of) for tweak in tweaks_named.values())


def named(flag: str, tweaks: Sequence[Tweak]) -> Tweak:
    """The tweak that a flag belongs to. Raises PerfdoctorError."""
    owners = {known_flag: tweak for tweak in tweaks for known_flag in _takes(tweak)}
    if flag not in owners:
        raise _unknown(flag, list(owners))
    return owners[flag]


def listed(words: Sequence[str], tweaks: Sequence[Tweak]) -> list[Tweak]:
    """The tweaks that are named by flags, with their values or without, or by ids. Raises PerfdoctorError."""
    found: list[Tweak] = []
    takes_value = False
    for word in words:
        is_flag = word.startswith("-")
        if takes_value and not is_flag:
            takes_value = False
            continue
        flag, equals, _ = (word if is_flag else f"--{word.replace('_', '-')}").partition("=")
        found.append(named(flag, tweaks))
        takes_value = is_flag and not equals and _takes(found[-1])[flag] is not None
    return found


def _pairs(
    words: Sequence[str],
    owners: Mapping[str, Tweak],
    options: Sequence[str],
    command: Sequence[str] | None,
) -> Iterator[tuple[str, str | None]]:
    """Each flag with its word, which stands behind it or behind `=`."""
    rest = list(words)
    bare = ""  # the flag before, if it takes no value
    while rest:
        flag, equals, word = rest.pop(0).partition("=")
        if flag not in owners:
            raise _unknown(flag, [*owners, *options], command, bare)
        takes = _takes(owners[flag])[flag]
        if takes is None and equals:
            raise PerfdoctorError(f"{flag} takes no value", f"write it like: {_typed(flag, command)}")
        if takes is not None and not equals:
            if not rest or rest[0].startswith("--"):
                quoted = "" if command is None else f'; in quotes: --with "{flag} {takes.metavar}"'
                raise PerfdoctorError(f"{flag} needs a value", f"{flag} takes {takes.allowed}{quoted}")
            word = rest.pop(0)
        bare = flag if takes is None else ""
        yield flag, None if takes is None else word


def _takes(tweak: Tweak) -> dict[str, Any]:
    """What each flag of a tweak takes, its own first."""
    return {tweak.flag: tweak.takes, **tweak.extras}


def _typed(tweaks: str, command: Sequence[str] | None) -> str:
    """The command line with these tweaks."""
    if command is None:
        return f"perfdoctor try {tweaks}"
    return f"perfdoctor run --with {shlex.quote(tweaks)} {shlex.join(command)}"


def _unknown(
    word: str, flags: Sequence[str], command: Sequence[str] | None = None, bare: str = ""
) -> PerfdoctorError:
    """What is wrong with a word where a flag should stand, behind the flag `bare` that takes no value."""
    flag = word if word.startswith("-") else f"--{word.replace('_', '-')}"
    if word.startswith("-m") or (flag != word and flag not in flags):  # a command begins with either
        like = EXAMPLE if command is None else _typed("--workers 4", command)
        where = "put the command after --" if command is None else "--with takes tweaks only"
        valueless = f"{bare} takes no value; " if bare else ""
        return PerfdoctorError(f"{word} is not a tweak", f"{valueless}{where}: {like}")
    close = difflib.get_close_matches(flag, flags, 1)
    perhaps = f"did you mean {close[0]}? " if close else ""
    return PerfdoctorError(f"no tweak called {word}", f"{perhaps}list them with: {LIST}")


def _setting(tweak: Tweak, given: Given) -> Setting:
    """A tweak with the values that were given for its flags."""
    words: list[str] = []
    values: dict[str, Any] = {}
    for flag, takes in _takes(tweak).items():
        if flag not in given and flag != tweak.flag:
            continue
        words.append(flag)
        if takes is None:
            continue
        word = given.get(flag)
        if word is None:  # the flag that goes with it is there, and cannot say how much
            raise PerfdoctorError(f"{flag} is missing", f"{flag} takes {takes.allowed}")
        words.append(word)
        values[VALUE if flag == tweak.flag else _name(flag)] = _value(flag, word, takes)
    return Setting(tweak.id, tuple(words), values, tweak.result)


def _name(flag: str) -> str:
    """`--amp-dtype` as the function's argument: `amp_dtype`."""
    return flag.removeprefix("--").replace("-", "_")


def _value(flag: str, word: str, takes: Any) -> Any:
    try:
        return takes.read(word)
    except ValueError:
        raise PerfdoctorError(
            f"{flag} {word}: this value is not allowed", f"{flag} takes {takes.allowed}"
        ) from None
