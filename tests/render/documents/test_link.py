from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from perfdoctor.render.documents import link
from tests.support import nets
from tests.support.paths import DOCS

SCHEMA = json.loads((DOCS / "net.schema.json").read_text())


@pytest.mark.parametrize(
    "net",
    [
        nets.LOCAL,
        nets.REMOTE,
        replace(nets.LOCAL, exchanges=nets.LOCAL.exchanges[:1], cut=16, ended="RuntimeError: gone"),
    ],
    ids=["one-host", "two-hosts", "cut-short"],
)
def test_documents_obey_the_schema(net) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(link.dumps(net)))


def test_bandwidths_and_the_line_are_given() -> None:
    document = link.document(nets.REMOTE)
    assert document["law"]["bus_bytes_per_s"] == pytest.approx(1.5e9)
    last = document["sizes"][-1]
    assert last["bus_bytes_per_s"] == pytest.approx(1.5 * last["bytes_per_s"])
