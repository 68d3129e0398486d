"""The habits of the house, read off the source: floors, sizes, the one guard, mirrored tests."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "perfdoctor"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)

# A module imports only from its own floor and those below it.
FLOORS = {
    **dict.fromkeys(
        ("__init__", "batch", "change", "model", "errors", "catalogue", "job", "trial", "units"), 0
    ),
    **dict.fromkeys(("probe", "tweaks"), 1),
    **dict.fromkeys(
        (
            "command",
            "contention",
            "ended",
            "jobnotes",
            "jobs",
            "launch",
            "limits",
            "missed",
            "net",
            "nics",
            "printed",
            "rawfiles",
            "recorded",
            "redact",
            "relay",
            "rundir",
            "runfile",
            "samplers",
            "sources",
            "stalled",
            "tasks",
            "trace",
        ),
        2,
    ),
    **dict.fromkeys(("analysis", "tips"), 3),
    **dict.fromkeys(("trials", "render"), 4),
    **dict.fromkeys(("cli", "__main__"), 5),
}
INSIDE = ("probe", "tweaks")  # what runs in the user's process
GUARD = PACKAGE / "probe" / "patch.py"  # the only place that may catch everything
PURE = ("analysis", "tips")
IMPURE_MODULES = {"io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile", "time"}
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def room(path: Path) -> str:
    """The part of the package a file belongs to: a folder's name, or a top module's."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[str, int, bool]]:
    """(absolute module name, line, whether it stands at module level) of every import in a file."""
    module = tree(path)
    delayed = {
        id(node)
        for function in ast.walk(module)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    for node in ast.walk(module):
        for name in _imported(node, path):
            yield name, node.lineno, id(node) not in delayed  # type: ignore[attr-defined]


def _imported(node: ast.AST, path: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    if not node.level:
        base = node.module or ""
    else:
        package = path.relative_to(ROOT).parts[: -node.level]
        base = ".".join([*package, *([node.module] if node.module else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def ours(name: str) -> str | None:
    """The room of perfdoctor that an import reaches into, or None."""
    parts = name.split(".")
    if parts[0] != "perfdoctor":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in FLOORS else "__init__"


@pytest.fixture(params=FILES, ids=relative)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


def test_every_room_of_the_package_has_a_floor() -> None:
    assert {room(path) for path in FILES} <= set(FLOORS)


def test_a_module_imports_only_from_its_own_floor_and_those_below(path: Path) -> None:
    own = FLOORS[room(path)]
    above = [
        f"{relative(path)}:{line} imports {name}"
        for name, line, _ in imports(path)
        if (target := ours(name)) is not None and FLOORS[target] > own
    ]
    assert not above


def test_nothing_imports_torch_at_module_level(path: Path) -> None:
    eager = [line for name, line, at_top in imports(path) if at_top and name.split(".")[0] == "torch"]
    assert not eager, f"{relative(path)} imports torch when it is itself imported: lines {eager}"


@pytest.mark.parametrize("path", [path for path in FILES if room(path) in INSIDE], ids=relative)
def test_the_user_process_gets_the_standard_library_torch_and_relative_imports_only(path: Path) -> None:
    allowed = set(sys.stdlib_module_names) | {"torch", "_perfdoctor"}
    strangers = [
        f"{relative(path)}:{line} imports {name}"
        for name, line, _ in imports(path)
        if name.split(".")[0] not in allowed and ours(name) not in INSIDE
    ]
    absolute = [
        f"{relative(path)}:{node.lineno} says perfdoctor instead of a dot"
        for node in ast.walk(tree(path))
        if (
            isinstance(node, ast.ImportFrom)
            and not node.level
            and (node.module or "").startswith("perfdoctor")
        )
        or (isinstance(node, ast.Import) and any(alias.name.startswith("perfdoctor") for alias in node.names))
    ]
    assert not strangers + absolute


@pytest.mark.parametrize("path", [path for path in FILES if room(path) in PURE], ids=relative)
def test_conclusions_are_drawn_without_files_clocks_or_printing(path: Path) -> None:
    reached = [name for name, _, _ in imports(path) if name.split(".")[0] in IMPURE_MODULES]
    calls = [
        node.func.id
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("open", "print")
    ]
    assert not reached + calls


def test_only_the_guard_catches_everything(path: Path) -> None:
    if path == GUARD:
        return
    broad = [
        handler.lineno
        for handler in ast.walk(tree(path))
        if isinstance(handler, ast.ExceptHandler) and _is_broad(handler.type) and not _raises_again(handler)
    ]
    assert not broad, f"{relative(path)} catches everything in lines {broad}"


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(name, ast.Name) and name.id in ("Exception", "BaseException") for name in names)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Whether whatever was caught goes on its way."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_functions_stay_small(path: Path) -> None:
    large = [
        f"{node.name} ({size} lines)"
        for node in ast.walk(tree(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]
    assert not large, f"over {MAX_FUNCTION_LINES} lines in {relative(path)}: {large}"


def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_FILE_LINES


def test_every_module_says_what_it_is_for(path: Path) -> None:
    module = tree(path)
    assert not module.body or ast.get_docstring(module), f"{relative(path)} has no docstring"


def test_tests_mirror_the_package() -> None:
    """A file below tests/<room>/ is named after a module of that room, or what its `__init__` defines.

    tests/gpu is no room: its files are named after what only a device can show.
    """
    strays = [
        relative(test)
        for test in (ROOT / "tests").rglob("test_*.py")
        if (folder := test.relative_to(ROOT / "tests").parent) not in (Path(), Path("gpu"))
        and test.stem.removeprefix("test_") not in _names(PACKAGE / folder)
    ]
    assert not strays


def _names(folder: Path) -> set[str]:
    if not (folder / "__init__.py").is_file():
        return set()
    defined = {node.name for node in tree(folder / "__init__.py").body if isinstance(node, ast.FunctionDef)}
    return (
        defined
        | {entry.stem.lstrip("_") for entry in folder.iterdir()}
        | {entry.stem for entry in folder.iterdir()}
    )
