"""A History as the public JSON document `perfdoctor.history/1`, described by docs/history.schema.json."""

from __future__ import annotations

from perfdoctor.model.history import SCHEMA, History
from perfdoctor.render.documents.encoder import ALL, Document

HISTORY = Document(SCHEMA, History, "What `perfdoctor history --json` prints.", {History: ALL})
document, dumps = HISTORY.document, HISTORY.dumps
