from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from perfdoctor.render import loaderjson
from tests.analysis.test_loadercurve import found, stretch

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "loader.schema.json").read_text())


def test_the_document_obeys_the_schema_and_unmeasured_is_null():
    document = json.loads(loaderjson.dumps(found(stretch(0, 10), stretch(2, 20))))
    jsonschema.Draft202012Validator(SCHEMA).validate(document)
    assert document["schema"] == "perfdoctor.loader/1"
    assert document["batch"] is None
    assert [setting["cold"] for setting in document["settings"]] == [None, None]
    assert document["settings"][1]["warm"]["batches_per_s"] == 20
    assert document["loader"]["at"] == {"file": "train.py", "line": 41, "text": "loader = DataLoader(items)"}
