"""Finds the files of the user's that belong together: a script is rarely alone."""

from __future__ import annotations

from collections.abc import Iterable

from perfdoctor.facts.user_source.origins import SourceFile
from perfdoctor.facts.user_source.parse import Sources

FILES = 200  # more than projects have that train one model


def project_files(files: Iterable[str], sources: Sources) -> list[str]:
    """The files, with all of the user's that they import, in the order in which those are met."""
    found = list(dict.fromkeys(files))
    for path in found:  # which grows meanwhile
        for module in sources.file(path).once(SourceFile).imports.values():
            for name in (module, module.rpartition(".")[0]):
                imported = sources.imported(path, name) if name.strip(".") else None
                if imported is not None and imported not in found and len(found) < FILES:
                    found.append(imported)
    return found
