"""The habits of the house, read off the source: who imports whom, sizes, the one guard, tests beside the code.

Who may import whom stands in one table, in docs/architecture.md. Each test names every offender at once.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.paths import DOCS, PACKAGE, ROOT, TESTS

LOOSE = {"__main__", "errors", "own_failures", "reporting"}  # the only modules that stand beside the packages
USER_PROCESS = ("wire", "probe", "tweaks")  # what runs in the user's process
# The only places that may catch everything: inside the user's process, and beside it.
GUARDS = (PACKAGE / "probe" / "patch.py", PACKAGE / "own_failures.py")
PURE = ("facts", "tips", "diagnosis")
IMPURE_MODULES = {"io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "time"}
IMPURE_CALLS = ("open", "print", "input")
# What turns data into running code, and what talks to other machines: only the ranks of `perfdoctor net` do.
EXECUTING_MODULES = set(
    "pickle _pickle marshal shelve dbm dill cloudpickle joblib yaml runpy code codeop".split()
)
EXECUTING_CALLS = {"eval", "exec", "compile", "execfile"}
UNPICKLING = re.compile(r"(?:torch|np|numpy|joblib|pandas|pd)\.(?:load|read_pickle)")
TALKING_MODULES = set(
    "socket socketserver ssl http urllib ftplib smtplib xmlrpc asyncio requests httpx aiohttp".split()
)
TALKS = PACKAGE / "watch" / "machine" / "link_program.py"
# What looks at whatever a script holds. A lazy object of its is computed where `isinstance` asks what it is.
LOOKING = """checksum containers looks/user_calls loader/batch_content loader/batch_costs steps/forward_names
    observers/batch_tensors observers/discarded_gradients observers/item_work observers/retained_graph""".split()
# Programs that import nothing of perfdoctor, and so write the names of files by hand.
BY_THEMSELVES = (
    PACKAGE / "probe" / "inject" / "sitecustomize.py",
    PACKAGE / "trials" / "sandbox" / "overlay.py",
)
# A whole text that names a file, or an f-string that does: `run.json`, `steps.rank*.bin`, `{}.{}.bin`.
FILE_NAME = re.compile(r"(?:[\w*-][\w.*{}-]*|\{\}(?:\.\{\})+)\.(?:json|jsonl|log|bin|txt)")
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400
MAX_ARCHITECTURE_LINES = 120
OLDEST_USER_PYTHON = (3, 9)

# Folders of tests that mirror no package, and tests of the whole tree, which lie at the top.
OTHER_TEST_FOLDERS = {"data", "e2e", "gpu", "loops", "scripts", "support"}

Function = (ast.FunctionDef, ast.AsyncFunctionDef)


class Import(NamedTuple):
    """One name that a file imports: absolute, as the file's place in the tree makes it."""

    name: str
    line: int
    is_delayed: bool  # inside a function
    is_relative: bool
    is_for_types: bool  # below `if TYPE_CHECKING`: never run


# --- the source, read once


@cache
def files() -> tuple[Path, ...]:
    return tuple(sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(path)))


@cache
def modules() -> dict[str, Path]:
    """Every module and package of perfdoctor by its full name."""
    names = {}
    for path in files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return names


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def room(path: Path) -> str:
    """The package a file belongs to, or the name of a loose module."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def imports(path: Path) -> tuple[Import, ...]:
    delayed = _inside(node for node in nodes(path) if isinstance(node, Function))
    for_types = _inside(
        statement
        for node in nodes(path)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
    )
    return tuple(
        Import(name, node.lineno, id(node) in delayed, bool(getattr(node, "level", 0)), id(node) in for_types)
        for node in nodes(path)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in _imported(node, path)
    )


def _inside(roots: Iterable[ast.AST]) -> set[int]:
    """The nodes of these subtrees, by identity."""
    return {id(node) for root in roots for node in ast.walk(root)}


def _imported(node: ast.Import | ast.ImportFrom, path: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    package = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
    base = ".".join([*package, *([node.module] if node.module else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def target(name: str) -> str | None:
    """The module of perfdoctor that an imported name is, or stands in; None for other projects'."""
    while name and name not in modules():
        name = name.rpartition(".")[0]
    return name or None


def arrows(path: Path) -> Iterator[tuple[str, Import]]:
    """(module of perfdoctor, import) for each name that a file imports from perfdoctor."""
    for imported in imports(path):
        if (module := target(imported.name)) is not None:
            yield module, imported


def nothing(offenders: Iterable[str]) -> None:
    """Fails with every offender on a line of its own."""
    lines = sorted(set(offenders))
    assert not lines, "\n" + "\n".join(lines)


# --- who may import whom


@cache
def allowed() -> dict[str, frozenset[str]]:
    """The table of docs/architecture.md: for each package or loose module, what it may import.

    "Everything" is what stands above it.
    """
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    table: dict[str, frozenset[str]] = {}
    for name, cell in re.findall(r"^\| `(\w+)/?` \|[^|]*\| ([^|]*) \|$", text, re.MULTILINE):
        table[name] = frozenset(table if cell == "everything" else re.findall(r"\w+", cell))
    return table


def test_the_table_names_each_package_and_loose_module_once() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert list(allowed()) == re.findall(r"^\| `(\w+)/?` \|", text, re.MULTILINE)
    assert set(allowed()) == {room(path) for path in files()} - {"__init__"}


def test_a_row_of_the_table_allows_only_rows_above_it() -> None:
    rows = list(allowed())
    nothing(
        f"{name}: {reached}"
        for place, name in enumerate(rows)
        for reached in sorted(allowed()[name])
        if reached not in rows[:place]
    )


def test_only_three_modules_stand_beside_the_packages() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} == LOOSE | {"__init__"}


def test_a_module_imports_only_what_the_table_allows_its_package() -> None:
    nothing(
        f"{relative(path)}:{imported.line} imports {module}"
        for path in files()
        for module, imported in set(arrows(path))
        if (reached := _room_of(module)) not in (None, room(path)) and reached not in allowed()[room(path)]
    )


def _room_of(module: str) -> str | None:
    """The package that a module of perfdoctor stands in; None for perfdoctor itself."""
    return module.split(".")[1] if "." in module else None


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Delayed imports count, and those for types only: a circle is one whenever it is walked."""
    graph = {name: {module for module, _ in arrows(path)} - {name} for name, path in modules().items()}
    nothing(" · ".join(circle) for circle in _circles(graph))


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of names of which each reaches all others."""
    reached = {name: _reached(name, graph) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return sorted(sorted(group) for group in groups if group)


def _reached(start: str, graph: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        new = graph[ahead.pop()] - seen
        seen |= new
        ahead.extend(new)
    return seen


def test_a_circle_is_found_wherever_it_begins() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert _circles(graph) == [["b", "c"]]


# --- what runs in the user's process


def test_nothing_imports_torch_at_module_level() -> None:
    nothing(
        f"{relative(path)}:{imported.line}"
        for path in files()
        for imported in imports(path)
        if not imported.is_delayed and imported.name.split(".")[0] == "torch"
    )


def test_the_users_process_gets_the_standard_library_torch_and_relative_imports_only() -> None:
    allowed_there = sys.stdlib_module_names | {"torch", "_perfdoctor"}
    nothing(
        f"{relative(path)}:{imported.line} imports {imported.name}"
        for path in _loaded_by_the_users_python()
        for imported in imports(path)
        if not imported.is_relative
        and not imported.is_for_types
        and imported.name.split(".")[0] not in allowed_there
    )


def test_programs_for_the_users_interpreter_import_nothing_of_ours() -> None:
    """They are started by their path, so a relative import has nothing to be relative to."""
    programs = sorted(PACKAGE.rglob("*_program.py"))
    assert programs
    nothing(relative(path) for path in programs if any(arrows(path)))


@pytest.mark.shows("other-interpreter", "versions")
def test_what_the_users_python_loads_is_written_for_the_oldest_one_supported() -> None:
    newer = []
    for path in _loaded_by_the_users_python():
        try:
            ast.parse(path.read_text(encoding="utf-8"), feature_version=OLDEST_USER_PYTHON)
        except SyntaxError as error:
            newer.append(f"{relative(path)}:{error.lineno} {error.msg}")
    nothing(newer)


def _loaded_by_the_users_python() -> list[Path]:
    return [path for path in files() if room(path) in USER_PROCESS or path.stem.endswith("_program")]


def test_no_array_is_made_of_a_tensor_of_the_scripts() -> None:
    """Torch lets nobody resize a tensor of which it made an array: `tensor_elements` reads the memory instead."""
    nothing(
        f"{relative(path)}:{node.lineno} {ast.unparse(node)}"
        for path in files()
        if room(path) in USER_PROCESS
        for node in nodes(path)
        if isinstance(node, ast.Attribute) and node.attr in ("numpy", "__array__", "__dlpack__")
    )


def test_values_of_the_scripts_are_not_asked_what_they_are() -> None:
    nothing(
        f"{relative(path)}:{node.lineno} {ast.unparse(node)}"
        for path in (PACKAGE / "probe" / f"{name}.py" for name in LOOKING)
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and ast.unparse(node.args[0]) != "error"
    )


# --- habits of every file


def test_conclusions_are_drawn_without_files_clocks_or_printing() -> None:
    impure = [
        f"{relative(path)}:{imported.line} imports {imported.name}"
        for path in files()
        if room(path) in PURE
        for imported in imports(path)
        if imported.name.split(".")[0] in IMPURE_MODULES
    ]
    impure += [
        f"{relative(path)}:{node.lineno} calls {node.func.id}"
        for path in files()
        if room(path) in PURE
        for node in nodes(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
    ]
    nothing(impure)


@pytest.mark.shows("hostile-files")
def test_nothing_that_is_read_is_executed() -> None:
    nothing(
        f"{relative(path)}:{imported.line} {imported.name}"
        for path in files()
        for imported in imports(path)
        if imported.name.partition(".")[0] in EXECUTING_MODULES
    )
    nothing(
        f"{relative(path)}:{node.lineno} {ast.unparse(node.func)}"
        for path in files()
        for node in nodes(path)
        if isinstance(node, ast.Call) and _executes(node)
    )


def _executes(call: ast.Call) -> bool:
    """Whether a call runs, unpickles or hands to a shell what it is given, which is no constant."""
    if call.args and all(isinstance(given, ast.Constant) for given in call.args):
        return False
    is_allowed = {"allow_pickle", "shell"} & {keyword.arg for keyword in call.keywords}
    return ast.unparse(call.func) in EXECUTING_CALLS or bool(
        is_allowed or UNPICKLING.fullmatch(ast.unparse(call.func))
    )


@pytest.mark.shows("no-network")
def test_nothing_talks_to_other_machines() -> None:
    nothing(
        f"{relative(path)}:{imported.line} {imported.name}"
        for path in files()
        if path != TALKS
        for imported in imports(path)
        if imported.name.partition(".")[0] in TALKING_MODULES
    )


def test_only_the_guards_catch_everything() -> None:
    nothing(
        f"{relative(path)}:{handler.lineno}"
        for path in files()
        if path not in GUARDS
        for handler in nodes(path)
        if isinstance(handler, ast.ExceptHandler) and _is_broad(handler.type) and not _raises_again(handler)
    )


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(name, ast.Name) and name.id in ("Exception", "BaseException") for name in names)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether whatever was caught goes on its way."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_functions_stay_small() -> None:
    nothing(
        f"{relative(path)}:{node.lineno} {node.name} has {size} lines"
        for path in files()
        for node in nodes(path)
        if isinstance(node, Function)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    )


def test_files_stay_small() -> None:
    nothing(
        f"{relative(path)} has {size} lines"
        for path in files()
        if (size := len(path.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
    )


def test_the_page_on_the_architecture_stays_short() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_ARCHITECTURE_LINES


def test_every_module_says_what_it_is_for() -> None:
    nothing(relative(path) for path in files() if tree(path).body and not ast.get_docstring(tree(path)))


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for path in files():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{relative(path)}:{node.lineno}")
    nothing(f"{name}: {', '.join(defined)}" for name, defined in places.items() if len(defined) > 1)


# --- names of files


def test_a_file_is_named_in_one_place() -> None:
    """Where a name is written twice, one side may change it, and the other look for a file that is not there."""
    places = defaultdict(list)
    for path in files():
        for node in nodes(path) if path not in BY_THEMSELVES else ():
            if FILE_NAME.fullmatch(name := _text(node)):
                places[name].append(f"{relative(path)}:{node.lineno}")
    nothing(f"{name}: {', '.join(named)}" for name, named in places.items() if len(named) > 1)


def test_the_names_of_wire_are_written_nowhere_else_in_a_path() -> None:
    """Those without a suffix are words that may stand elsewhere for something else."""
    names = {
        _text(node.value) for node in tree(PACKAGE / "wire" / "names.py").body if isinstance(node, ast.Assign)
    }
    assert {"config.json", "diverted"} <= names
    nothing(
        f"{relative(path)}:{part.lineno} {_text(part)}"
        for path in files()
        if path not in BY_THEMSELVES
        for node in nodes(path)
        for part in _path_parts(node)
        if _text(part) in names
    )


def _text(node: ast.AST) -> str:
    """A text as the source has it, with {} for what an f-string fills in; empty for all that is none."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _path_parts(node: ast.AST) -> list[ast.expr]:
    """What is joined to a path there."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return [node.left, node.right]
    is_join = isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
        ("path.join", ".joinpath", "Path")
    )
    return node.args if is_join else []


# --- tests beside the code


def test_tests_mirror_the_package() -> None:
    """tests/a/b/test_c.py tests perfdoctor/a/b/c.py, or the package c in that folder."""
    nothing(
        relative(test)
        for test in sorted(TESTS.rglob("test_*.py"))
        if (folder := test.relative_to(TESTS).parent) != Path()
        and folder.parts[0] not in OTHER_TEST_FOLDERS
        and not _stands_in(PACKAGE / folder, test.stem.removeprefix("test_"))
    )


def test_a_loose_test_is_of_a_loose_module_or_of_the_whole_tree() -> None:
    of_the_tree = {"docs", "drop_in", "house", "repository", "wheel"}
    loose = {path.stem.removeprefix("test_") for path in TESTS.glob("test_*.py")}
    assert loose <= LOOSE | of_the_tree


def _stands_in(folder: Path, name: str) -> bool:
    """Whether a folder of the package has such a module (`_name` too) or package."""
    return (
        any((folder / f"{stem}.py").is_file() for stem in (name, f"_{name}"))
        or (folder / name / "__init__.py").is_file()
    )
