"""Files of JSON lines, as anybody may have left them."""

from __future__ import annotations

import os
from pathlib import Path

from perfdoctor.runs import json_text


def test_broken_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "lines.jsonl"
    deep = b"[" * (json_text.DEEPEST + 1) + b"]" * (json_text.DEEPEST + 1)
    file.write_bytes(b'{"a": 1}\nnot JSON\n[2]\n{"deep": ' + deep + b'}\n{"b": 3}\n{"cut": ')
    assert list(json_text.objects(file)) == [{"a": 1}, {"b": 3}]


def test_what_is_no_file_holds_no_objects(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing", "."):
        assert not list(json_text.objects(tmp_path / name))
