"""Parses the user's source where it is needed: statements, loops, and what a statement calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Set
from copy import copy
from functools import cached_property
from itertools import product
from typing import Any, TypeVar

from perfdoctor.model.measured import Location

LineReader = Callable[[str, int], "str | None"]
Made = TypeVar("Made")

UPWARDS = 3  # folders above a file's own in which a module that it imports is looked for
KEPT_IN = ("", "src")  # of each of them, where projects keep packages
LONGEST_FILE = 20_000  # lines; longer ones are generated, and not worth the time
Function = ast.FunctionDef | ast.AsyncFunctionDef
SIMPLE_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.AsyncFor, ast.While)

# Calls that log, whatever they are called on ...
ALWAYS_LOGS = frozenset(
    "print pprint add_scalar add_scalars add_histogram add_figure log_metric log_metrics log_dict log_scalar "
    "report_scalar savefig fsync set_postfix set_postfix_str set_description".split()
)
# ... those that do on an open file or a writer: a buffer of samples has a method `write`, too ...
LOGS_ON_WRITERS = frozenset("write writelines writerow writerows add_text add_image".split())
WRITERS = re.compile(
    r"(?:^|_)(?:f|fh|fp|fd|fout|csv|tsv|logs?|tqdm|p?bar|stdout|stderr|open)\d*$"
    r"|(?:(?<!pro)file|logger|writer)s?\d*$",
    re.IGNORECASE,
)
WRITING_MODE = re.compile(r"[wax][bt+]*|r[bt]*\+[bt]*")  # of a file that is opened
# ... and those that do on what is named like a logger.
LOGS_ON_LOGGERS = frozenset("info debug warning error exception log flush dump".split())
LOGGER_MAKERS = frozenset(("getLogger", "getChild"))
LOGGERS = frozenset(
    "wandb mlflow logger logging log writer tb tensorboard console rich neptune experiment sys".split()
)
SAVERS = frozenset("torch np numpy pickle joblib safetensors".split())  # others may save a sample in memory
SAVING_CALLS = frozenset(
    "save save_file save_pretrained save_model savez savez_compressed save_state save_checkpoint".split()
)


class Listing:
    """One file: its lines and, where it parses, its tree."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self._made_once: dict[Any, Any] = {}

    def once(self, make: Callable[[Listing], Made]) -> Made:
        """What a function or a class makes of this file: made when first asked for, and kept."""
        if make not in self._made_once:
            self._made_once[make] = make(self)
        found: Made = self._made_once[make]
        return found

    @cached_property
    def tree(self) -> ast.Module | None:
        """The parsed file, or None where it is not Python."""
        try:
            return ast.parse("\n".join(self.lines))
        except (SyntaxError, ValueError, RecursionError):
            return None

    @cached_property
    def scopes(self) -> list[Function]:
        """All functions of the file, those inside others as well."""
        return [node for node in ast.walk(self.tree) if isinstance(node, Function)] if self.tree else []

    @cached_property
    def writers(self) -> frozenset[str]:
        """The names of open files and of writers, by what makes them: `open(...)`, `csv.writer(...)`."""
        return frozenset(name for name, maker in self._made if WRITERS.search(maker)) | self.loggers

    @cached_property
    def loggers(self) -> frozenset[str]:
        """The names of loggers of Python's logging, by what makes them."""
        return frozenset(name for name, maker in self._made if maker in LOGGER_MAKERS)

    @cached_property
    def _made(self) -> list[tuple[str, str]]:
        """What is set to the result of a call, by its last name, and the last name of what is called."""
        nodes = list(ast.walk(self.tree)) if self.tree else []
        named = [
            *((node.targets[0], node.value) for node in nodes if isinstance(node, ast.Assign)),
            *((node.target, node.value) for node in nodes if isinstance(node, ast.AnnAssign)),
            *((node.optional_vars, node.context_expr) for node in nodes if isinstance(node, ast.withitem)),
        ]
        return [
            (name, maker)
            for target, value in named
            if isinstance(value, ast.Call) and (maker := _last_name(value))
            if isinstance(target, (ast.Name, ast.Attribute)) and (name := _last_name(target))
        ]

    def scope(self, line: int) -> ast.Module | Function | None:
        """The innermost function around a line, or the module."""
        around = [node for node in self.scopes if node.body[0].lineno <= line <= (node.end_lineno or 0)]
        return max(around, key=lambda node: node.lineno, default=self.tree)

    def beginning(self, line: int, name: str) -> Function | None:
        """The function of this name that begins at a line; its decorators belong to it."""
        for node in self.scopes:
            first = min([node.lineno, *(outer.lineno for outer in node.decorator_list)])
            if node.name == name and first == line:
                return node
        return None

    def statement(self, line: int) -> ast.stmt | None:
        """The innermost statement around a line; of a compound statement, it is the header that is meant."""
        scope = self.scope(line)
        candidates = [node for node in statements(scope.body) if covers(node, line)] if scope else []
        return candidates[-1] if candidates else None

    def comprehension(self, line: int) -> ast.stmt | None:
        """The statement at a line if it holds a comprehension, which is a loop too."""
        node = self.statement(line)
        parts = header(node) if node is not None else []
        return (
            node
            if any(isinstance(inner, COMPREHENSIONS) for part in parts for inner in ast.walk(part))
            else None
        )

    def loops(self, line: int) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
        """The loops around a line within its own function, the outermost first."""
        scope = self.scope(line)
        for node in statements(scope.body) if scope else ():
            if isinstance(node, LOOPS) and node.lineno <= line <= (node.end_lineno or 0):
                yield node

    def outermost_loop(self, line: int) -> ast.For | ast.AsyncFor | ast.While | None:
        """The outermost loop around a line within its own function."""
        return next(self.loops(line), None)


class Sources:
    """Files by name, read through the caller's function and parsed once."""

    def __init__(self, source: LineReader) -> None:
        self._source = source
        self._files: dict[str, Listing] = {}

    def file(self, name: str) -> Listing:
        """The listing of a file; an empty one where its text is not to be had."""
        if name not in self._files:
            lines: list[str] = []
            while len(lines) < LONGEST_FILE and (text := self._source(name, len(lines) + 1)) is not None:
                lines.append(text.rstrip("\n"))
            self._files[name] = Listing(lines)
        return self._files[name]

    def imported(self, name: str, module: str) -> str | None:
        """The file of a module that another file imports; None where it is none of the user's."""
        above = len(module) - len(module.lstrip("."))
        parts = name.replace("\\", "/").split("/")[:-1]
        tried = product([above - 1], KEPT_IN[:1]) if above else product(range(UPWARDS + 1), KEPT_IN)
        for levels, within in tried:
            folder = parts[: len(parts) - levels] if levels <= len(parts) else []
            named = "/".join([*folder, *filter(None, [within, *module.strip(".").split(".")])])
            for file in (f"{named}.py", f"{named}/__init__.py"):
                if self._source(file, 1) is not None:
                    return file
        return None

    def shown(self, at: Location | None) -> Location | None:
        """The place with its text."""
        return None if at is None else self.at(at.file, at.line, at.function)

    def at(self, name: str, line: int, function: str | None = None) -> Location:
        """A place with its text, and with that of its statement where it takes several lines."""
        node = self.file(name).statement(line)
        whole = on_one_line(node) if node is not None else None
        return Location(name, line, function, self.text(name, line), whole)

    def lines_of(self, at: Location) -> range:
        """The lines of the statement that a place tells all of; else its own."""
        node = self.file(at.file).statement(at.line) if at.whole is not None else None
        return range(node.lineno, last_line(node) + 1) if node is not None else range(at.line, at.line + 1)

    def text(self, name: str, line: int) -> str | None:
        """One stripped line, or None."""
        text = self._source(name, line)
        return text.strip() if text is not None else None


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a body in order, nested blocks included, nested functions and classes not entered."""
    for node in body:
        yield node
        if isinstance(node, (*Function.__args__, ast.ClassDef)):
            continue
        for name in SIMPLE_BODIES:
            for inner in getattr(node, name, ()):
                if isinstance(inner, ast.stmt):
                    yield from statements([inner])
                else:
                    yield from statements(inner.body)


def covers(node: ast.stmt, line: int) -> bool:
    """Whether a line belongs to a simple statement, or to the header of a compound one."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return node.lineno <= line <= max(last, node.lineno)


def last_line(node: ast.stmt) -> int:
    """The last line of a simple statement, or of what the header of a compound one holds."""
    if not hasattr(node, "body") and not isinstance(node, ast.Match):
        return node.end_lineno or node.lineno
    parts = [inner for part in header(node) for inner in ast.walk(part)]
    return max((getattr(inner, "end_lineno", None) or 0 for inner in parts), default=node.lineno)


def on_one_line(node: ast.stmt) -> str | None:
    """A statement of several lines, or the header of one, on one line; None where it is on one already."""
    if isinstance(node, (*Function.__args__, ast.ClassDef)) or last_line(node) <= node.lineno:
        return None
    alone = copy(node)
    for name in SIMPLE_BODIES:
        if hasattr(alone, name):
            setattr(alone, name, [])
    text = ast.unparse(alone)
    return text if "\n" not in text else None


def statements_at(listing: Listing, line: int) -> list[ast.stmt]:
    """The simple statements of a line, in order: several where semicolons part them."""
    scope = listing.scope(line)
    return [
        node
        for node in (statements(scope.body) if scope else ())
        if not hasattr(node, "body") and covers(node, line)
    ]


def header(node: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that run on its own lines."""
    return [
        child
        for name, value in ast.iter_fields(node)
        if name not in SIMPLE_BODIES
        for child in (value if isinstance(value, list) else [value])
        if isinstance(child, ast.AST)
    ]


def calls(node: ast.stmt) -> Iterator[tuple[str | None, str]]:
    """What a statement calls, as (owner, name): `self.log.info(x)` gives ("log", "info")."""
    for part in header(node):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Call):
                if isinstance(inner.func, ast.Name):
                    yield None, inner.func.id
                elif isinstance(inner.func, ast.Attribute):
                    yield _last_name(inner.func.value), inner.func.attr


def written_below(node: ast.stmt) -> list[ast.stmt]:
    """What a `with` holds that opens a file to write: closing it, on its own line, ends what they write."""
    if not isinstance(node, ast.With):
        return []
    parts = [part for item in node.items for part in ast.walk(item.context_expr)]
    modes = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    opens = any(name == "open" for _, name in calls(node))
    return list(statements(node.body)) if opens and any(map(WRITING_MODE.fullmatch, modes)) else []


def names_in(node: ast.AST) -> set[str]:
    """All names and attributes that a piece of text holds."""
    parts = list(ast.walk(node))
    names = {inner.id for inner in parts if isinstance(inner, ast.Name)}
    return names | {inner.attr for inner in parts if isinstance(inner, ast.Attribute)}


def parsed_line(text: str | None) -> ast.Module | None:
    """A line by itself, be it the header of a compound statement; None where it is no whole one."""
    line = (text or "").strip()
    for whole in (line, f"{line}\n    pass", f"if 1: pass\n{line}\n    pass"):
        try:
            return ast.parse(whole)
        except (SyntaxError, ValueError):
            continue
    return None


def _last_name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return _last_name(node.func) if isinstance(node, ast.Call) else None


def logs(node: ast.stmt, called: str | None = None, writers: Set[str] = frozenset()) -> bool:
    """Whether a statement prints, logs or writes metrics; with `called`, whether it does by that call.

    `writers`: as a listing knows them, where it is at hand.
    """
    return any(
        is_log(owner, name, writers) or (name in {"dump", "dumps"} and owner == "json")
        for owner, name in calls(node)
        if called in {None, name}
    )


def is_log(owner: str | None, name: str, writers: Set[str] = frozenset()) -> bool:
    """Whether a call logs by its name and that of what it is called on."""
    if owner is None:
        return name in ALWAYS_LOGS
    is_logger = owner.lower().strip("_") in LOGGERS or owner in LOGGER_MAKERS
    is_writer = is_logger or owner in writers or WRITERS.search(owner) is not None
    return (
        name in ALWAYS_LOGS
        or ((is_logger or owner in writers) and name in LOGS_ON_LOGGERS)
        or (is_writer and name in LOGS_ON_WRITERS)
    )


def saves(node: ast.stmt) -> bool:
    """Whether a statement writes a checkpoint."""
    return any(
        (name in SAVING_CALLS and (name != "save" or owner is None or owner in SAVERS))
        or (owner in {"pickle", "joblib"} and name == "dump")
        for owner, name in calls(node)
    )
