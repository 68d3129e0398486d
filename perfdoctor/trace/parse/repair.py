"""Repairs events that are no valid JSON: kineto escapes no quotes in names and no bytes beyond UTF-8."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import orjson

EXACT_US = 2**43  # neighbouring float64 above it are more than a nanosecond apart
KEYS = "ph|cat|name|pid|tid|ts|dur|args|id|s|bp"
EVENT_BEGIN = rf'\{{\s*"(?:{KEYS})"\s*:'  # an object that begins with a field of an event
STRING = re.compile(rf'("(?:name|cat)":\s*")(.*?)"(?=\s*,\s*"(?:{KEYS})"\s*:|\s*\}}?\s*$)', re.DOTALL)
ARGUMENTS = re.compile(r',\s*"args"\s*:.*$', re.DOTALL)
BARE_QUOTE = re.compile(r'(?<!\\)"')
# A string; nothing, where a value should be; or text without quotes, which is a value of JSON or none.
VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=:)\s*(?=[,}\]])|[^\s"\[\]{},:]+', re.DOTALL)
GOOD = re.compile(r'".*|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false|null|NaN|-?Infinity', re.DOTALL)


def loads(text: bytes) -> Any:
    """`text` as JSON; None if it is not valid."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def decoded(text: bytes) -> Any:
    """An event, or a list of events, with time stamps exact to the nanosecond; None if it is not valid."""
    value = loads(text)
    events = value if isinstance(value, list) else [value]
    if any(_is_rounded(event) for event in events):
        return json.loads(text, parse_float=Decimal)
    return value


def _is_rounded(event: Any) -> bool:
    """Whether the time stamp has lost its last digits."""
    stamp = event.get("ts") if isinstance(event, dict) else None
    return isinstance(stamp, float) and stamp > EXACT_US


def repair(text: bytes) -> dict[str, Any] | None:
    """An event that is not valid JSON, read with less strictness; None if nothing helps.

    First control characters and bytes that are no UTF-8 are let pass, then quotes inside the name and the
    category are escaped, then values that are none (nothing at all, `inf`) become null, then the arguments
    are given up.
    """
    plain = text.decode("utf-8", "replace")
    quoted = STRING.sub(lambda field: field[1] + BARE_QUOTE.sub(r'\\"', field[2]) + '"', plain)
    valued = VALUE.sub(lambda found: found[0] if GOOD.fullmatch(found[0]) else "null", quoted)
    for attempt in (plain, quoted, valued, ARGUMENTS.sub("}", quoted)):
        try:
            event = json.loads(attempt, strict=False, parse_float=Decimal)
        except (ValueError, RecursionError):
            continue
        return event if isinstance(event, dict) else None
    return None
