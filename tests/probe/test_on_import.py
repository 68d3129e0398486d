from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from perfdoctor.probe.on_import import on_import


@pytest.fixture
def module_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return tmp_path


def without_watchers() -> list[object]:
    """Who finds modules beside watchers: perfdoctor may watch for others in this process already."""
    return [finder for finder in sys.meta_path if type(finder).__name__ != "ImportWatcher"]


def test_a_module_that_is_there_is_handed_over_at_once() -> None:
    seen: list[ModuleType] = []
    on_import("json", seen.append)
    assert seen == [sys.modules["json"]]


def test_a_later_module_is_handed_over_once_its_own_code_has_run(module_path: Path) -> None:
    (module_path / "later_module.py").write_text("done = True\n")
    finders, before = sys.meta_path, without_watchers()
    seen: list[bool] = []
    on_import("later_module", lambda module: seen.append(module.done))
    on_import("later_module", lambda module: seen.append(module.__loader__ is module.__spec__.loader))
    assert seen == []
    __import__("later_module")
    assert seen == [True, True]
    assert sys.meta_path is finders
    assert without_watchers() == before


def test_a_module_in_a_package_waits_for_its_own_import(module_path: Path) -> None:
    (module_path / "a_package").mkdir()
    (module_path / "a_package" / "__init__.py").touch()
    (module_path / "a_package" / "inner.py").touch()
    seen: list[str] = []
    on_import("a_package.inner", lambda module: seen.append(module.__name__))
    __import__("a_package")
    assert seen == []
    __import__("a_package.inner")
    assert seen == ["a_package.inner"]


def test_a_module_that_never_comes_is_no_trouble(module_path: Path) -> None:
    on_import("never_module", lambda module: pytest.fail("it came"))
    with pytest.raises(ModuleNotFoundError):
        __import__("never_module")
