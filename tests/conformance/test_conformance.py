import ast
import asyncio
import re
from pathlib import Path

import pytest
from tests.conformance.document import HEAD, OWN, PAGE, UNPLAYED, row
from tests.conformance.harms import CLUSTER, HARMS
from tests.conformance.laws import LAWS, Law
from tests.conformance.stage import Plugin, stage
from tests.conformance.subjects import NAIVE, RAILSIDE, SILENT

_HARMS = {
    1: "the kubelet crashed: panic: runtime error: invalid memory address or nil pointer dereference",
    2: "the kubelet crashed: panic: runtime error: invalid memory address or nil pointer dereference",
    3: "the kubelet killed two-steps",
    4: "1 bare ids stand beside 1 with hints",
    6: "the kubelet crashed: panic: runtime error: invalid memory address or nil pointer dereference",
    7: "an HCA is idle, and the eighth pod waits for ever",
    9: "dealt an HCA of NUMA node 0, the container starts on one of node 1",
}
"""What the naive plugin does to its node; the eighth law it keeps."""

_LAWS = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"law-{law.number}")


@_LAWS
async def test_the_agent_keeps_every_law(law: Law) -> None:
    """Whatever the kubelet does, the agent's pods live, each with its own HCA."""
    verdict = await law.story(RAILSIDE)
    assert verdict.holds, verdict.seen


@_LAWS
async def test_a_naive_plugin_shows_what_each_law_catches(law: Law) -> None:
    """A plugin as one writes it in an afternoon does the harm that the law is there for."""
    verdict = await law.story(NAIVE)
    assert (verdict.holds, verdict.seen[: len(_HARMS.get(law.number, ""))]) == (
        law.number not in _HARMS,
        _HARMS.get(law.number, ""),
    )


@_LAWS
async def test_a_plugin_that_does_nothing_keeps_no_law(law: Law) -> None:
    """Whoever offers nothing harms nobody, and is no device plugin."""
    verdict = await law.story(SILENT)
    assert not verdict.holds


async def test_a_command_is_given_the_folders(tmp_path: Path) -> None:
    """``{root}`` and ``{kubelet}`` are filled in wherever they stand in the command."""
    told = tmp_path / "told"
    command = (
        "sh",
        "-c",
        f"test -d {{root}}/sys && test -S {{kubelet}}/device-plugins/kubelet.sock && touch {told}",
    )
    async with stage(Plugin(name="asking", command=command, patience_seconds=1)) as on:
        await on.offers(8)
    assert await asyncio.to_thread(told.exists)


async def test_the_page_says_what_the_kit_sees() -> None:
    """docs/conformance.md has a row for each law: the agent keeps it, and the naive plugin as above."""
    text = await asyncio.to_thread(PAGE.read_text, encoding="utf-8")
    assert text.startswith(HEAD)
    assert text.endswith(OWN)
    rows = [line for line in text.splitlines(keepends=True) if re.match(r"\| \d ", line)]
    played = {
        law.number: row(law.number, law.title, "kept", "**broken**" if law.number in _HARMS else "kept")
        for law in LAWS
    }
    unplayed = {number: row(number, title, "", "") for number, title in UNPLAYED.items()}
    assert [line for _, line in sorted((played | unplayed).items())] == rows


@pytest.mark.parametrize("number", [law.number for law in LAWS] + list(UNPLAYED))
def test_each_law_names_the_tests_of_its_harm(number: int) -> None:
    """On the real kubelet the harm of every law is shown, by tests that are there and tell of that law."""
    assert HARMS[number]
    for shown in HARMS[number]:
        module = ast.parse((CLUSTER / shown.file).read_text(encoding="utf-8"))
        (test,) = (one for one in module.body if isinstance(one, ast.FunctionDef) and one.name == shown.test)
        assert (ast.get_docstring(test) or "").startswith(f"Law {number}: ")
