import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY

from railside_proto.names import MODE_LABEL, RESOURCE

_SOURCE_ROOTS = ("proto", "agent", "extender", "cli", "sim")
_PACKAGES = {
    *(path.parent for root in _SOURCE_ROOTS for path in (REPOSITORY / root).glob("*/__init__.py")),
    REPOSITORY / "benchmarks",
}
_MODULES = sorted(path for package in _PACKAGES for path in package.rglob("*.py") if "pb" not in path.parts)
_TESTS = sorted((REPOSITORY / "tests").rglob("test_*.py"))
_LIMITS = re.compile(r"must (not|never|hold no|import neither|know nothing)")


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def _parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _strings(path: Path) -> Iterator[str]:
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", [path for path in _MODULES if path.name != "names.py"], ids=_name)
def test_names_of_others_stand_in_one_place(path: Path) -> None:
    """The platform's resource and label are spelt in names.py alone."""
    spelt = [text for text in _strings(path) if text in {RESOURCE, MODE_LABEL} or text.startswith("vke.")]
    assert spelt == []


@pytest.mark.parametrize("path", _MODULES, ids=_name)
def test_every_module_says_what_it_is_for_and_what_it_must_not_do(path: Path) -> None:
    """A module's docstring has two sentences at least, one of which draws its limits."""
    docstring = " ".join((ast.get_docstring(_parsed(path)) or "").split())
    assert len(re.findall(r"[.:](?:\s|$)", docstring)) >= 2
    assert _LIMITS.search(docstring)


def test_every_module_is_core_or_shell() -> None:
    """The import contract lists each module of the agent, the contracts and the shared shells exactly once."""
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(one for one in contracts if one["name"].startswith("core imports neither"))
    listed = [*layers["source_modules"], *layers["forbidden_modules"]]
    ours = ("railside_agent.", "railside_extender.", "railside_runtime.", "railside_proto")
    listed = [name for name in listed if name.startswith(ours)]
    there = {"railside_proto"} | {
        f"{path.parent.name}.{path.stem}"
        for path in _MODULES
        if path.parent.name in {"railside_agent", "railside_extender", "railside_runtime"}
        and path.stem != "__init__"
    }
    assert sorted(there) == sorted(listed)


@pytest.mark.parametrize("path", _TESTS, ids=_name)
def test_every_test_states_a_behaviour(path: Path) -> None:
    """A test's docstring is one sentence that ends with a full stop."""
    tests = [function for function in _functions(path) if function.name.startswith("test_")]
    bad = [test.name for test in tests if not re.fullmatch(r"\S.*\.", ast.get_docstring(test) or "", re.DOTALL)]
    assert bad == []


@pytest.mark.parametrize("path", _TESTS, ids=_name)
def test_no_test_sleeps(path: Path) -> None:
    """Tests wait for what happens and never for time to pass."""
    calls = [node.func for node in ast.walk(_parsed(path)) if isinstance(node, ast.Call)]
    assert [ast.unparse(call) for call in calls if ast.unparse(call) in {"time.sleep", "asyncio.sleep"}] == []


@pytest.mark.parametrize("path", _TESTS, ids=_name)
def test_no_test_patches_the_product(path: Path) -> None:
    """Tests give fakes to constructors; nothing of the product is patched."""
    attributes = {ast.unparse(node) for node in ast.walk(_parsed(path)) if isinstance(node, ast.Attribute)}
    imported = {node.module for node in ast.walk(_parsed(path)) if isinstance(node, ast.ImportFrom)}
    assert set() == attributes & {"mock.patch", "monkeypatch.setattr"}
    assert "unittest.mock" not in imported
