from __future__ import annotations

import json

import jsonschema

from perfdoctor.render.documents import loader
from tests.facts.data.test_loader_curve import found, stretch
from tests.support.paths import DOCS

SCHEMA = json.loads((DOCS / "loader.schema.json").read_text())


def test_the_document_obeys_the_schema_and_unmeasured_is_null():
    document = json.loads(loader.dumps(found(stretch(0, 10), stretch(2, 20))))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["schema"] == "perfdoctor.loader/1"
    assert document["batch"] is None
    assert [setting["cold"] for setting in document["settings"]] == [None, None]
    assert document["settings"][1]["warm"]["batches_per_s"] == 20
    assert document["loader"]["at"] == {"file": "train.py", "line": 41, "text": "loader = DataLoader(items)"}
