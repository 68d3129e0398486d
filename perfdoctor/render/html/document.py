"""One HTML file that needs no other: its style and its scripts stand inside it, and nothing else may run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from perfdoctor.model.dataclass import dataclass
from perfdoctor.render import text

TEMPLATES = Path(__file__).parent / "templates"
STYLE = "report.css"


@dataclass(frozen=True)
class Inlined:
    """What stands inside the file, and the digest by which its policy allows it."""

    content: str
    digest: str


def filled(template: str, scripts: Sequence[str] = (), **values: Any) -> str:
    """The file that a template makes of these values, which are escaped; `scripts` are names of templates."""
    return (
        _environment()
        .get_template(template)
        .render(style=_inlined(STYLE), scripts=[_inlined(name) for name in scripts], **values)
    )


@cache
def _inlined(name: str) -> Inlined:
    content = _environment().get_template(name).render()
    return Inlined(content, base64.b64encode(hashlib.sha256(content.encode()).digest()).decode())


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=_plain,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _plain(value: Any) -> Any:
    """What could turn the direction of text, or steer a viewer, written as an escape."""
    if isinstance(value, str) and not hasattr(value, "__html__") and not value.isprintable():
        return text.escape_control(value)
    return value
