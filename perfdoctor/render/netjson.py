"""A measured link as the public JSON document `perfdoctor.net/1`, described by docs/net.schema.json.

Fields are added, never renamed. What was not measured is null, never zero.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from perfdoctor import redact
from perfdoctor.net import SCHEMA, Net
from perfdoctor.render import json as public
from perfdoctor.render import netpage

Json = dict[str, Any]


def dumps(net: Net) -> bytes:
    """The document as indented UTF-8 text that ends with a newline."""
    return public.text(document(net))


def document(net: Net) -> Json:
    """The document as plain dictionaries and lists."""
    law = net.law
    return {
        "schema": SCHEMA,
        "command": redact.command(net.command),
        "path": net.path,
        "ranks": net.ranks,
        "hosts": list(net.hosts),
        "backend": net.backend,
        "device": net.device,
        "torch": net.torch,
        "sizes": [
            asdict(exchange)
            | {
                "bytes_per_s": exchange.bytes / exchange.seconds,
                "bus_bytes_per_s": net.bus_bytes_per_s(exchange),
            }
            for exchange in net.exchanges
        ],
        "law": asdict(law) | {"bus_bytes_per_s": net.link_bytes_per_s} if law is not None else None,
        "nic": asdict(net.nic) if net.nic is not None else None,
        "advice": netpage.advice(net),
        "cut": net.cut,
        "ended": net.ended,
        "notes": netpage.notes(net),
    }
