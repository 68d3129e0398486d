"""A script's file as it is now, where its calls stand in it, and what it becomes."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path

from perfdoctor.facts.user_source.parse import Function, Listing
from perfdoctor.model.dataclass import dataclass

BETWEEN = frozenset((tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT))
TEXTS = frozenset((tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)))


class ByHand(Exception):
    """A change that cannot be written into the file, and why."""


@dataclass(frozen=True)
class TextEdit:
    """What stands from one character of a file up to another one is replaced.

    `context`: the text goes on in a block below a `with` of it, which edits of the same place share.
    """

    begin: int
    end: int
    text: str
    context: str = ""


def holds(node: ast.expr | ast.stmt, line: int) -> bool:
    """Whether a line is one of those that a node takes."""
    return node.lineno <= line <= (node.end_lineno or node.lineno)


class ScriptText:
    """One file. Places are numbers of characters from its begin; lines end as they do in the file."""

    def __init__(self, path: Path) -> None:
        try:
            self.text = path.read_bytes().decode()
        except (OSError, UnicodeError) as error:
            raise ByHand(f"{path.name} cannot be read: {error}") from None
        if self.text.startswith("\ufeff") or "\f" in self.text:
            raise ByHand(f"{path.name} holds a byte order mark, or a form feed")
        if not str(path).isprintable():
            raise ByHand(f"{path.name!r}: its path cannot stand in a diff")
        self._lines = io.StringIO(self.text, newline="").readlines()
        self._listing = Listing([line.rstrip("\r\n") for line in self._lines])
        if self._listing.tree is None:
            raise ByHand(f"{path.name} cannot be read as Python")
        self.tree = self._listing.tree
        self.path = path
        self.newline = "\r\n" if "\r\n" in self.text else "\n"

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line))
        return starts

    def at(self, line: int, column: int) -> int:
        """The place of a line and column of a syntax tree, whose columns are bytes of UTF-8."""
        in_line = self._lines[line - 1] if line <= len(self._lines) else ""
        return self._starts[line - 1] + len(in_line.encode()[:column].decode())

    def begin(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Where a node begins."""
        return self.at(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt | ast.keyword) -> int:
        """Where it ends."""
        return self.at(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)

    def line_end(self, line: int) -> int:
        """The place behind what a line says, before the line ends."""
        return self._starts[line - 1] + len(self._lines[line - 1].rstrip("\r\n"))

    def indent(self, line: int) -> str:
        """The white space that a line begins with."""
        said = self._lines[line - 1]
        return said[: len(said) - len(said.lstrip(" \t"))]

    def step(self, line: int) -> str:
        """The white space that a block of a line's indents by."""
        return "\t" if self.indent(line).startswith("\t") else "    "

    def calls(self, line: int) -> Iterator[ast.Call]:
        """The calls that a line is part of, innermost first."""
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        around = (call for call in calls if holds(call, line))
        yield from sorted(around, key=lambda call: self.end(call) - self.begin(call))

    def scope(self, line: int) -> ast.Module | Function:
        """The innermost function around a line, or the whole file."""
        return self._listing.scope(line) or self.tree

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {inner: outer for outer in ast.walk(self.tree) for inner in ast.iter_child_nodes(outer)}

    def around(self, node: ast.AST) -> list[ast.AST]:
        """The nodes that a node is part of, the file first."""
        found: list[ast.AST] = []
        while (outer := self._parents.get(node)) is not None:
            found.append(outer)
            node = outer
        return found[::-1]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that a node is part of, or is."""
        return next(each for each in (node, *reversed(self.around(node))) if isinstance(each, ast.stmt))

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands."""
        lists = (value for _, value in ast.iter_fields(self._parents[statement]) if isinstance(value, list))
        return next(each for each in lists if statement in each)

    def is_alone(self, statement: ast.stmt) -> bool:
        """Whether its lines say nothing else."""
        first = statement.lineno
        begins = self.begin(statement) == self.begin_of_line(first) + len(self.indent(first))
        return begins and not self.says_more(self.end(statement))

    def name(self, node: ast.expr) -> str:
        """The last name of what is called, as the module that defines it calls it."""
        if isinstance(node, ast.Attribute):
            return node.attr
        return self._imported.get(node.id, (node.id, ""))[0] if isinstance(node, ast.Name) else ""

    def is_torchs(self, node: ast.expr) -> bool:
        """Whether a name, or what it is an attribute of, is imported from torch or torchdata."""
        while isinstance(node, ast.Attribute):
            node = node.value
        home = self._imported.get(node.id, ("", ""))[1] if isinstance(node, ast.Name) else ""
        return home.partition(".")[0] in {"torch", "torchdata"}

    def is_returned(self, call: ast.Call) -> bool:
        """Whether a call is what a function returns, whatever it was called with."""
        returned = (node.value for node in ast.walk(self.tree) if isinstance(node, ast.Return))
        return any(value is call for value in returned)

    @cached_property
    def _imported(self) -> dict[str, tuple[str, str]]:
        """Names that are imported -> what they are called at home, and where that is."""
        found: dict[str, tuple[str, str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                found.update(
                    {alias.asname or alias.name: (alias.name, node.module or "") for alias in node.names}
                )
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    found[name] = name, alias.name
        return found

    def is_torchs_name(self, name: str) -> bool:
        """Whether a name is imported from torch, or an attribute of a module of torch's in the file is."""
        uses = (node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute) and node.attr == name)
        return self._imported.get(name, ("", ""))[1].partition(".")[0] == "torch" or any(
            map(self.is_torchs, uses)
        )

    def is_imported(self, name: str) -> bool:
        """Whether an import binds a name."""
        return name in self._imported

    def defines(self, name: str) -> bool:
        """Whether a function or class of the file is called so."""
        return name in self._defined

    @cached_property
    def _defined(self) -> set[str]:
        return {node.name for node in ast.walk(self.tree) if isinstance(node, Function | ast.ClassDef)}

    def check_torch(self, line: int, todo: str) -> None:
        """Raise ByHand, with what is to be done, where `torch` may not be torch at a line."""
        first = self.imports_of_torch()
        names = {id(alias) for node in first for alias in node.names}
        others = (node for node in ast.walk(self.tree) if _binds_torch(node) and id(node) not in names)
        late = line < first[0].lineno and isinstance(self.scope(line), ast.Module) if first else True
        if late or any(self._reaches(node, line) for node in others):
            raise ByHand(f"{self.path.name} does not begin with `import torch`: {todo}")

    def imports_of_torch(self) -> list[ast.Import]:
        """The statements of the file itself that import it by its name."""
        imports = (node for node in self.tree.body if isinstance(node, ast.Import))
        return [node for node in imports if any(map(_binds_torch, node.names))]

    def _reaches(self, node: ast.AST, line: int) -> bool:
        """Whether what binds a name may do so for a line: it is in no function, or in the line's."""
        function = next((each for each in self.around(node) if isinstance(each, Function)), None)
        return function is None or holds(function, line)

    def last_import(self, first: ast.Import) -> ast.stmt:
        """The last of the imports that follow one at once."""
        last: ast.stmt = first
        for node in self.tree.body[self.tree.body.index(first) :]:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                last = node
            elif not isinstance(node, (ast.Try, ast.If)):  # imports that are tried
                break
        return last

    def begin_of_line(self, line: int) -> int:
        """The place where a line begins."""
        return self._starts[line - 1]

    def is_blank(self, line: int) -> bool:
        """Whether a line says nothing."""
        return not self._lines[line - 1].strip()

    def says_more(self, place: int) -> bool:
        """Whether a line goes on behind a place with more than a comment."""
        rest = self.text[place:].partition("\n")[0].strip()
        return bool(rest) and not rest.startswith("#")

    def spans_lines(self, first: int, last: int) -> bool:
        """Whether a text begins in one of these lines and ends in another."""
        return any(
            token.start[0] < token.end[0] and first <= token.start[0] <= last and token.type in TEXTS
            for token in self._tokens
        )

    def last_token(self, call: ast.Call) -> tokenize.TokenInfo:
        """What stands last before the parenthesis that ends a call; comments aside."""
        end = self.end(call)
        inside = (
            token for token in self._tokens if self.place(token.end) < end and token.type not in BETWEEN
        )
        return max(inside, key=lambda token: token.end)

    @cached_property
    def _tokens(self) -> list[tokenize.TokenInfo]:
        return list(tokenize.generate_tokens(io.StringIO(self.text, newline="").readline))

    def place(self, position: tuple[int, int]) -> int:
        """The place of a token's line and column, which counts characters."""
        return self._starts[position[0] - 1] + position[1]

    def edited(self, edits: Iterable[TextEdit]) -> str:
        """The text with all edits made. Raises ByHand where it is no Python any more."""
        text, before = self.text, len(self.text) + 1
        in_order = sorted(_joined(edits), key=lambda one: (one.begin, one.end))
        for edit in reversed(in_order):  # of those in one place, the first comes first
            if edit.end > before:
                raise ByHand("two changes meet in one place")
            text, before = text[: edit.begin] + edit.text + text[edit.end :], edit.begin
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise ByHand(f"the change would break the file: {error}") from None
        return text


def _joined(edits: Iterable[TextEdit]) -> list[TextEdit]:
    """Each edit once, and one `with` for all contexts of blocks that begin in one place.

    Where one of them takes only a part of the statement below it, that is what all were tried with.
    """
    plain: dict[TextEdit, None] = {}
    blocks: dict[TextEdit, None] = {}
    contexts: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for edit in edits:
        if edit.context:
            contexts[edit.begin][edit.context] = None
        (blocks if edit.context else plain)[TextEdit(edit.begin, edit.end, edit.text)] = None
    parting = {one.begin for one in blocks if one.end > one.begin}
    kept = (one for one in blocks if one.end > one.begin or one.begin not in parting)
    said = {at: ", ".join(given) for at, given in contexts.items()}
    return [*plain, *(TextEdit(one.begin, one.end, f"with {said[one.begin]}:{one.text}") for one in kept)]


def _binds_torch(node: ast.AST) -> bool:
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0]) == "torch"
    if isinstance(node, ast.Global | ast.Nonlocal):
        return "torch" in node.names
    if isinstance(node, ast.Name):
        return node.id == "torch" and not isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.arg) and node.arg == "torch"
