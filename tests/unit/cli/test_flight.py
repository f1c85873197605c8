import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from railside_agent.flight_log import Began, Entry, ListMade, Note, SeatLine, write
from railside_agent.pool_rules import pool_rules
from railside_agent.settings import Settings
from railside_agent.situation import Situation
from railside_agent.virtual_topology import TopologySource
from railside_cli.exit_status import FINDING, FINE, UNREACHABLE
from railside_cli.flight import show

_POOLS = tuple(pool_rules(Settings()))
_BEGAN = Began(version="1", topology=TopologySource.AUTO, pools=_POOLS, at="2026-03-12T10:00:00.000+00:00")
_LIST = ListMade(at=_BEGAN.at, pool=_POOLS[0].pool.name, facts=Situation(now=1.0), changed={})
_SEAT = SeatLine(healthy=True)
_OTHERWISE = ListMade(at=_BEGAN.at, pool=_LIST.pool, facts=Situation(now=1.0), changed={"n0-s0": _SEAT})
_WHOLE = write([_BEGAN, _LIST])
_FILE = "flight-00000000.jsonl"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a recording's only file will be."""
    (tmp_path / "recorder").mkdir()
    return tmp_path / "recorder" / _FILE


def _shown(path: Path, *, as_json: bool = False) -> tuple[int, list[str]]:
    out = io.StringIO()
    status = show(path, Console(file=out, highlight=False, soft_wrap=True), as_json=as_json)
    return status, out.getvalue().splitlines()


@pytest.mark.parametrize("place", ["recorder", ".", f"recorder/{_FILE}"])
def test_a_recording_may_be_named_in_three_ways(file: Path, tmp_path: Path, place: str) -> None:
    """The folder, the folder above it and the file itself are the same recording."""
    file.write_bytes(_WHOLE)
    status, lines = _shown(tmp_path / place)
    assert (status, lines[0], len(lines)) == (FINE, "the only decision comes out as recorded", 3)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(None, "{folder} holds no recording of an agent: there are no files flight-", id="no-file"),
        pytest.param(b"", "the recording {file} is empty", id="empty"),
        pytest.param(b"\xff\n" + write([_LIST]), "{file}:1 makes no sense to this version: ", id="garbage"),
        pytest.param(
            write([_BEGAN]) + b'{"type":"list","at":5}\n',
            "{file}:2 makes no sense to this version: ",
            id="bad-value",
        ),
        pytest.param(_WHOLE[:-9], "{file}:2 is cut off in mid-line, ", id="cut"),
        pytest.param(write([_BEGAN]), "the recording {file} tells of no decision\n", id="no-decision"),
        pytest.param(
            write([_LIST]), "the recording {file} tells of no decision, and not how it ", id="no-beginning"
        ),
    ],
)
def test_what_cannot_be_replayed_is_told_from_what_is_not_there(
    file: Path, capsys: pytest.CaptureFixture[str], text: bytes | None, sentence: str
) -> None:
    """One sentence on stderr names the file and the line, or says that there is no recording; the status is 3."""
    if text is not None:
        file.write_bytes(text)
    assert _shown(file.parent) == (UNREACHABLE, [])
    told = capsys.readouterr().err
    assert told.startswith("railside: " + sentence.format(file=file, folder=file.parent))
    assert told.count("\n") == 1


def test_a_recording_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path that leads nowhere is said to."""
    assert _shown(tmp_path / "nowhere")[0] == UNREACHABLE
    assert capsys.readouterr().err.endswith("/nowhere holds no recording of an agent: it is not there\n")


def test_lines_that_are_lost_are_told_beside_what_is_decided_again(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torn last line, as a live recording's copy has, costs only itself, and people and programs are told."""
    file.write_bytes(_WHOLE + write([Note(at=_BEGAN.at, what="more")])[:-5])
    status, lines = _shown(file.parent)
    assert (status, lines[0]) == (FINE, "the only decision comes out as recorded")
    assert lines[1].startswith(f"{file}:3 is cut off in mid-line")
    assert _shown(file.parent, as_json=True)[0] == FINE
    told = capsys.readouterr()
    assert (len(json.loads(told.out)), told.err.startswith(f"railside: {file}:3 is cut off")) == (1, True)


@pytest.mark.parametrize(
    ("entries", "head", "ends"),
    [
        ([_LIST, _LIST], "all 2 decisions come out as recorded", FINE),
        ([_OTHERWISE], "1 of 1 decision comes out otherwise than recorded", FINDING),
        ([_LIST, _OTHERWISE], "1 of 2 decisions comes out otherwise than recorded", FINDING),
        ([_OTHERWISE, _OTHERWISE], "2 of 2 decisions come out otherwise than recorded", FINDING),
    ],
)
def test_decisions_are_counted_in_good_english(file: Path, entries: list[Entry], head: str, ends: int) -> None:
    """One comes out, two come out."""
    file.write_bytes(write([_BEGAN, *entries]))
    status, lines = _shown(file)
    assert (status, lines[0]) == (ends, head)
