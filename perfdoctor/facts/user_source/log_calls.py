"""Reads calls that log: what is computed for them alone, and by what test it need not be.

The arguments of a call are computed before it, be it to a logger whose level is off.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from perfdoctor.facts.user_source.origins import SourceFile, called_name, dotted
from perfdoctor.facts.user_source.parse import LOGGER_MAKERS, Sources, header, is_log
from perfdoctor.model.measured import Location

# The methods of a logger of Python's logging that are named by their level.
LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "critical": "CRITICAL",
}
MODULE = "logging"


def is_handed_to_log(node: ast.stmt, called: str, writers: Set[str] = frozenset()) -> bool:
    """Whether a statement calls a function of this name in the arguments of calls that log, and only there.

    `writers`: as a listing knows them.
    """
    every = {id(call) for call in _calls(node) if called_name(call) == called}
    handed = {
        id(call)
        for log in _calls(node)
        if is_log(_owner(log), called_name(log), writers)
        for argument in (*log.args, *log.keywords)
        for call in ast.walk(argument)
    }
    return bool(every) and every <= handed


def level_test(sources: Sources, at: Location) -> str | None:
    """What tells, before a statement that logs by Python's logging, whether its logger writes it.

    None where the statement does more, or the source does not show that it is such a logger.
    """
    node = sources.file(at.file).statement(at.line)
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    logger, level = call.func.value, _level(call)
    if level is None or not _is_of_logging(sources, at.file, logger):
        return None
    asked = "logging.getLogger()" if dotted(logger) == MODULE else ast.unparse(logger)
    return f"{asked}.isEnabledFor({level})"


def _level(call: ast.Call) -> str | None:
    name = called_name(call)
    if name == "log" and call.args:
        return ast.unparse(call.args[0])
    return f"{MODULE}.{LEVELS[name]}" if name in LEVELS else None


def _is_of_logging(sources: Sources, file: str, logger: ast.expr) -> bool:
    """Whether an expression is the module, or a logger that this file makes or imports."""
    if isinstance(logger, ast.Call):
        return called_name(logger) in LOGGER_MAKERS
    listing, full = sources.file(file), dotted(logger)
    source = listing.once(SourceFile)
    if full == MODULE:
        return source.imports.get(MODULE) == MODULE
    if full.rpartition(".")[2] in listing.loggers:
        return True
    for module, original in source.imported_from(full):
        path = sources.imported(file, module) if module else None
        if path is not None and original in sources.file(path).loggers:
            return True
    return False


def _calls(node: ast.stmt) -> Iterator[ast.Call]:
    """All calls of a statement, or of the header of a compound one."""
    for part in header(node):
        yield from (inner for inner in ast.walk(part) if isinstance(inner, ast.Call))


def _owner(call: ast.Call) -> str | None:
    """The last name of what a method is called on; None of a function."""
    if not isinstance(call.func, ast.Attribute):
        return None
    return dotted(call.func.value).rpartition(".")[2]
