"""Finds where a script gives its sparse matrix the layout that it is read against: by columns, or by rows."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Listing, Sources
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.model.measured import Location


def laid_out_at(layout: str, files: Iterable[str], sources: Sources) -> Location | None:
    """The line that makes a matrix of this layout ("csc" or "csr"); None where several do, or none.

    It is looked for in these files and in all of the user's that they import.
    """
    found = [
        (file, line)
        for file in project_files(files, sources)
        for line in sorted(set(_makers(layout, sources.file(file))))
    ]
    if len(found) != 1:
        return None
    file, line = found[0]
    scope = sources.file(file).scope(line)
    return sources.at(file, line, getattr(scope, "name", None))


def _makers(layout: str, listing: Listing) -> Iterator[int]:
    names = {f"to{layout}", f"{layout}_matrix", f"{layout}_array"}
    for node in ast.walk(listing.tree) if listing.tree is not None else ():
        if not isinstance(node, ast.Call):
            continue
        asked = any(
            key.arg == "format" and isinstance(key.value, ast.Constant) and key.value.value == layout
            for key in node.keywords
        )
        if asked or called_name(node) in names:
            yield node.lineno
