"""A LoaderCurve as the public JSON document `perfdoctor.loader/1`, described by docs/loader.schema.json.

Fields are added, never renamed. What was not measured is null, never zero.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from perfdoctor.analysis import loadernotes
from perfdoctor.analysis.loadercurve import LoaderCurve, Measured, Rate, Setting
from perfdoctor.render import json as public
from perfdoctor.render import words

SCHEMA = "perfdoctor.loader/1"

Json = dict[str, Any]


def dumps(curve: LoaderCurve) -> bytes:
    """The document as indented UTF-8 text that ends with a newline."""
    return public.text(document(curve))


def document(curve: LoaderCurve) -> Json:
    """The document as plain dictionaries and lists."""
    return {
        "schema": SCHEMA,
        "run": {"command": list(curve.command), "path": curve.path, "outcome": curve.outcome},
        "usable_cores": curve.cores,
        "ranks": curve.ranks,
        "loader": _loader(curve.loader, curve.cwd) if curve.loader is not None else None,
        "batch": asdict(curve.cost) if curve.cost is not None else None,
        "settings": [_setting(setting) for setting in curve.settings],
        "judged": curve.judged,
        "best": curve.best,
        "knee": curve.knee,
        "speedup": curve.speedup,
        "headline": loadernotes.headline(curve),
        "because": loadernotes.reasons(curve),
        "code": loadernotes.code(curve),
        "notes": list(curve.notes),
    }


def _loader(loader: Measured, cwd: str) -> Json:
    at = loader.at
    place = {"file": words.path(at.file, cwd), "line": at.line, "text": at.text} if at is not None else None
    return asdict(loader) | {"at": place}


def _setting(setting: Setting) -> Json:
    rates = {kind: _rate(getattr(setting, kind)) for kind in ("warm", "cold", "synthetic")}
    return asdict(setting) | rates | {"memory_bytes": setting.memory_bytes}


def _rate(rate: Rate | None) -> Json | None:
    if rate is None:
        return None
    return {
        "batches": rate.batches,
        "seconds": rate.seconds,
        "batches_per_s": rate.batches_per_s,
        "samples_per_s": rate.samples_per_s or None,
        "cpu_s_per_batch": rate.cpu_s,
        "noise": rate.noise,
        "crowded": rate.crowded,
    }
