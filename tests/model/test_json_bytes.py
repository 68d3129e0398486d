from __future__ import annotations

import json
import os

import pytest

from perfdoctor.model import json_bytes


@pytest.mark.shows("odd-names")
def test_names_that_are_no_text_are_written_as_escapes_wherever_they_stand():
    name = os.fsdecode(b"caf\xe9")
    written = json.loads(json_bytes.dumps({name: [name, {"in": (name, 1)}], "text": "größe"}))
    assert written == {r"caf\udce9": [r"caf\udce9", {"in": [r"caf\udce9", 1]}], "text": "größe"}


def test_what_has_no_json_is_an_error():
    with pytest.raises(TypeError):
        json_bytes.dumps({"a": object()})
