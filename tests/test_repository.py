"""What stands beside the code: workflows, forms and hooks say the same as pyproject.toml and the Makefile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = [
    file for file in sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")) if file.stem != "config"
]
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def parsed(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content


def recipe(target: str) -> list[str]:
    """The commands of one target of the Makefile, as a shell gets them."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    match = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert match, f"the Makefile has no commands for {target}"
    return [line.strip().replace("$(BIN)", ".venv/bin") for line in match[1].splitlines()]


def test_pre_commit_runs_what_make_lint_runs() -> None:
    (repository,) = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [hook["entry"] for hook in repository["hooks"]] == recipe("lint")


@pytest.mark.shows("versions")
def test_the_tests_run_on_the_pythons_that_the_package_names() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(r"Programming Language :: Python :: (3\.\d+)", text)
    job = parsed(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["tests"]
    assert job["strategy"]["matrix"]["python"] == named
    assert f'requires-python = ">={named[0]}"' in text


@pytest.mark.shows("versions")
def test_the_tests_run_on_the_oldest_torch_that_the_package_asks_for() -> None:
    text = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    known = re.findall(r'"(\d+\.\d+\.\d+)"', text)
    floor, newest = known[:2]
    pairs = parsed(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["torch"]["strategy"]["matrix"][
        "include"
    ]
    assert {pair["torch"] for pair in pairs} == set(known) - {newest}
    assert all(re.search(rf'{re.escape(pair["torch"])}": .*"{pair["python"]}"', text) for pair in pairs[1:])
    assert {"torch": floor, "python": "3.10"} in pairs
    asked = re.findall(r'^torch = \["torch>=([\d.]+)"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert asked == [floor.rpartition(".")[0]]
    assert f"torch {asked[0]} or newer" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert newest in pinned("constraints.txt")["torch"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda file: file.stem)
def test_a_workflow_may_only_read_and_pins_what_it_uses(workflow: Path) -> None:
    assert parsed(workflow)["permissions"] == {"contents": "read"}
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [action for action in used if not PINNED.match(action)] == []


def pinned(name: str) -> dict[str, set[str]]:
    """The versions that a file of the repository pins each package to; of one with hashes, each has some."""
    versions: dict[str, set[str]] = {}
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        match = re.match(r"([\w.-]+)==([^ ;]+)(.*)", line)
        if match:
            versions.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), set()).add(match[2])
            assert name == "constraints.txt" or re.search(r" --hash=sha256:[0-9a-f]{64}\b", match[3]), line
    return versions


@pytest.mark.parametrize("name", ["run", "release"])
def test_what_a_release_needs_is_locked_by_hashes_in_the_tested_versions(name: str) -> None:
    locked, tested = pinned(f"requirements/{name}.txt"), pinned("constraints.txt")
    if name == "run":
        text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
        asked = re.findall(
            r'"([\w-]+)', re.findall(r"^dependencies = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)[0]
        )
    else:
        asked = (ROOT / "requirements" / "release.in").read_text(encoding="utf-8").split()
    assert set(asked) <= locked.keys()
    others = {package for package in locked.keys() & tested.keys() if not tested[package] <= locked[package]}
    assert others == set()


def test_a_release_is_made_as_on_any_machine_and_has_the_list_of_its_dependencies() -> None:
    steps = parsed(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["build"]["steps"]
    assert "make dist PYTHON=python" in [step.get("run") for step in steps]
    made = recipe("dist")
    assert any("--output-file dist/perfdoctor.cdx.json" in command for command in made)
    assert any(command.endswith(" dist/requirements.txt") for command in made)
    assert any("--require-hashes" in command for command in recipe(r"\$\(RELEASE\)/.installed"))


@pytest.mark.parametrize("form", FORMS, ids=lambda file: file.stem)
def test_a_form_asks_each_question_once_and_says_why(form: Path) -> None:
    content = parsed(form)
    assert content["name"]
    assert content["description"]
    questions = [part for part in content["body"] if part["type"] != "markdown"]
    names = [question["id"] for question in questions]
    assert len(set(names)) == len(names)
    assert any(question.get("validations", {}).get("required") for question in questions)


@pytest.mark.parametrize("stem", ["bug", "wrong-verdict"])
def test_who_reports_trouble_is_asked_for_the_report_and_versions(stem: str) -> None:
    body = parsed(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{stem}.yml")["body"]
    asked = {part["id"]: part["attributes"].get("description", "") for part in body}
    assert "perfdoctor report --json" in asked["report"]
    assert "torch" in asked["versions"]


def test_who_reports_a_bug_can_attach_the_bundle_in_place_of_the_rest() -> None:
    parts = parsed(ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml")["body"]
    assert (
        "perfdoctor bug"
        in next(part for part in parts if part["id"] == "bundle")["attributes"]["description"]
    )
    required = [part["id"] for part in parts if part.get("validations", {}).get("required")]
    assert required == [parts[0]["id"]]


def test_a_package_with_types_says_so() -> None:
    assert '"Typing :: Typed"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert (ROOT / "perfdoctor" / "py.typed").exists()
