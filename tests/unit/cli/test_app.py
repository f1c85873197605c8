import errno
import io
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.conftest import MACHINES, MakeTree

from railside_cli.app import main
from railside_cli.exit_status import FINDING, FINE, UNREACHABLE, UNWRITTEN, USAGE
from railside_cli.output import Output, OutputError
from railside_sim.manifest import read_manifest
from railside_sim.tree import write_tree

_PROGRAM = [sys.executable, "-c", "from railside_cli.app import main; raise SystemExit(main())"]
_SECONDS = 30.0


@pytest.fixture
def make_tree(tmp_path: Path) -> MakeTree:
    """Make a tree as ``scripts/tree.py`` does: like a copy of a machine's, which has no device nodes."""

    def make(name: str) -> Path:
        write_tree(read_manifest(MACHINES / f"{name}.machine"), tmp_path / name)
        return tmp_path / name

    return make


@pytest.mark.parametrize(
    ("machine", "status", "head"),
    [
        ("ecs.hpcpni3.45xlarge", FINE, "8 of 8 HCAs sound, 1 left out; 8 GPUs, 8 beside an HCA; 2 NUMA nodes"),
        ("netns-exclusive", FINDING, "0 of 1 HCA sound, 1 left out; no GPU; 2 NUMA nodes"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_topo_ends_as_its_first_line_says(
    capsys: pytest.CaptureFixture[str], make_tree: MakeTree, machine: str, status: int, head: str, form: str
) -> None:
    """People and programs get the same verdict and exit status."""
    ended = main(["topo", "--root", str(make_tree(machine)), "-o", form])
    told = capsys.readouterr().out
    assert (ended, json.loads(told)["verdict"] if form == "json" else told.splitlines()[0]) == (status, head)


def test_topo_where_there_is_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """No machine is an error, a machine without HCAs a picture, and both end as nothing there to look at."""
    assert main(["topo", "--root", str(tmp_path)]) == UNREACHABLE
    told = capsys.readouterr()
    assert (told.out, told.err) == (
        "",
        f"railside: {tmp_path} holds no machine: there is no folder {tmp_path / 'sys'}\n",
    )
    (tmp_path / "sys").mkdir()
    assert main(["topo", "--root", str(tmp_path)]) == UNREACHABLE
    assert capsys.readouterr().out.startswith("no HCA found; no GPU; 0 NUMA nodes\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["replay"], "FOLDER is missing (railside replay --help says more)"),
        (["demo"], "MACHINE is missing (railside demo --help says more)"),
        (["topo", "--root"], "--root needs a value (railside topo --help says more)"),
        (["replay", "a", "b"], "'b' is too much (railside replay --help says more)"),
        (["topo", "a", "b"], "'a' 'b' are too much (railside topo --help says more)"),
        (["topo", "-o", "yaml"], "-o is 'yaml'; it must be text or json (railside topo --help says more)"),
        (["topo", "-o", "text", "-o", "json"], "-o is given more than once (railside topo --help says more)"),
        (
            ["topo", "--rot", "/"],
            "there is no option --rot: did you mean --root? (railside topo --help says more)",
        ),
        (["topu"], "there is no command 'topu': did you mean topo? (railside --help says more)"),
        (["fly"], "there is no command 'fly': there are topo, demo, replay, why (railside --help says more)"),
    ],
)
def test_a_bad_command_line_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    """It calls what is missing or too much as the usage does, and the exit status is 2."""
    assert main(arguments) == USAGE
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", f"railside: {sentence}\n")


def test_the_version_is_told_with_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Both programs say whose version it is."""
    assert main(["--version"]) == FINE
    assert capsys.readouterr().out == f"railside {version('railside')}\n"


def test_what_cannot_be_read_is_one_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The kernel's own words come with the path, and without an error's number."""
    (tmp_path / "flight-00000000.jsonl").mkdir()
    assert main(["replay", str(tmp_path)]) == UNREACHABLE
    file = tmp_path / "flight-00000000.jsonl"
    assert capsys.readouterr().err == f"railside: {file} cannot be read: Is a directory\n"


@pytest.mark.parametrize("form", ["text", "json"])
def test_output_that_cannot_be_written_is_told(make_tree: MakeTree, form: str) -> None:
    """A full disk is neither a finding nor a machine that is not there: its exit status is its own."""
    arguments = [*_PROGRAM, "topo", "--root", str(make_tree("one-hca")), "-o", form]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(  # noqa: S603 -- our own program
            arguments, stdout=full, stderr=subprocess.PIPE, text=True, timeout=_SECONDS, check=False
        )
    assert (ended.returncode, ended.stderr) == (
        UNWRITTEN,
        "railside: what was found cannot be written: No space left on device\n",
    )


def test_a_closed_stdout_is_told(make_tree: MakeTree) -> None:
    """Nowhere to print is told like a full disk."""
    command = '"$@" >&-'
    arguments = ["sh", "-c", command, "sh", *_PROGRAM, "topo", "--root", str(make_tree("one-hca"))]
    ended = subprocess.run(arguments, stderr=subprocess.PIPE, text=True, timeout=_SECONDS, check=False)  # noqa: S603
    assert (ended.returncode, ended.stderr) == (
        UNWRITTEN,
        "railside: what was found cannot be written: stdout is closed\n",
    )


def test_a_reader_that_has_seen_enough_is_no_failure(make_tree: MakeTree) -> None:
    """Into a pipe that nobody reads any more the program says nothing, and ends well."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [*_PROGRAM, "topo", "--root", str(make_tree("one-hca"))]
    ended = subprocess.run(  # noqa: S603 -- our own program
        arguments, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=_SECONDS, check=False
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (FINE, "")


class _Full(io.StringIO):
    """A stream to a disk that is full."""

    def write(self, _text: str, /) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_what_fails_at_once_and_what_fails_later_are_the_same() -> None:
    """Whoever prints meets one error, wherever the stream's buffer ends."""
    with pytest.raises(OutputError, match="No space left on device"):
        Output(_Full()).write("line")
    with pytest.raises(OutputError, match="No space left on device"):
        Output(_Full()).flush()
