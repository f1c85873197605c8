import json

import msgspec
import pytest

from railside_runtime.picture import MOST_TOMBSTONES, LostTrack, Picture, read_page


class _Thing(msgspec.Struct, frozen=True):
    colour: str = ""


def _object(uid: str, version: int | str, colour: object = "red") -> dict[str, object]:
    return {"metadata": {"uid": uid, "name": f"thing-{uid}", "resourceVersion": str(version)}, "colour": colour}


def _line(kind: str, *of: object, **fields: object) -> bytes:
    return json.dumps({"type": kind, "object": _object(*of, **fields)}).encode()  # type: ignore[arg-type]


def _listed(picture: Picture[_Thing], *objects: dict[str, object], version: int = 10) -> None:
    picture.replace(
        [read_page(json.dumps({"metadata": {"resourceVersion": str(version)}, "items": objects}).encode())]
    )


@pytest.fixture
def picture() -> Picture[_Thing]:
    return Picture(_Thing)


def _colours(picture: Picture[_Thing]) -> dict[str, str]:
    return {uid: thing.colour for uid, thing in picture.objects.items()}


def test_a_list_is_the_whole_picture(picture: Picture[_Thing]) -> None:
    """What a later list no longer shows has left, and the version is the list's."""
    _listed(picture, _object("a", 5), _object("b", 6))
    _listed(picture, _object("b", 9, "blue"), version=20)
    assert (_colours(picture), picture.version) == ({"b": "blue"}, "20")


def test_lines_change_the_picture(picture: Picture[_Thing]) -> None:
    """Objects come, change and go line by line, and each line moves the version on."""
    _listed(picture, _object("a", 5))
    told = [
        picture.apply(line)
        for line in (_line("ADDED", "b", 11), _line("MODIFIED", "a", 12, "blue"), _line("DELETED", "b", 13))
    ]
    assert (_colours(picture), picture.version, told) == ({"a": "blue"}, "13", [None] * 3)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([("ADDED", "a", 11), ("ADDED", "a", 11)], {"a": "red"}, id="twice"),
        pytest.param([("MODIFIED", "a", 12, "blue"), ("MODIFIED", "a", 11)], {"a": "blue"}, id="older-change"),
        pytest.param([("ADDED", "a", 11), ("DELETED", "a", 12), ("MODIFIED", "a", 11)], {}, id="change-after-end"),
        pytest.param([("DELETED", "a", 12), ("ADDED", "a", 11), ("DELETED", "a", 12)], {}, id="end-first"),
        pytest.param([("DELETED", "a", 12), ("DELETED", "a", 11), ("ADDED", "a", 12)], {}, id="older-end"),
        pytest.param([("DELETED", "a", 12), ("ADDED", "a", 13)], {"a": "red"}, id="in-the-selection-again"),
        pytest.param([("ADDED", "a", 13), ("DELETED", "a", 12)], {"a": "red"}, id="end-of-an-older-stay"),
        pytest.param([("ADDED", "a", 13), ("DELETED", "a", 13)], {}, id="end-with-the-last-version"),
        pytest.param([("BOOKMARK", "a", 13)], {}, id="bookmark"),
        pytest.param([("ADDED", "a", "x1"), ("MODIFIED", "a", "w0", "blue")], {"a": "blue"}, id="no-numbers"),
        pytest.param([("WHATEVER", "a", 13)], {}, id="unknown-kind"),
    ],
)
def test_the_newest_version_stays(
    picture: Picture[_Thing], lines: list[tuple[object, ...]], expected: dict[str, str]
) -> None:
    """Lines that come twice, late or in the wrong order leave what the newest of them said."""
    _listed(picture)
    for kind, *rest in lines:
        assert picture.apply(_line(str(kind), *rest)) is None
    assert expected == _colours(picture)


def test_a_bookmark_moves_the_version_alone(picture: Picture[_Thing]) -> None:
    """A bookmark spares the next watch what happened elsewhere."""
    _listed(picture, _object("a", 5))
    picture.apply(b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "99"}}}')
    assert (_colours(picture), picture.version) == ({"a": "red"}, "99")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}',
            LostTrack(why="too old", expired=True),
            id="gone",
        ),
        pytest.param(
            b'{"type": "ERROR", "object": {"code": 500, "message": "leader changed"}}',
            LostTrack(why="leader changed", expired=False),
            id="error",
        ),
        pytest.param(
            b'{"type": "ERROR", "object": {"code": 504}}',
            LostTrack(why="the watch ended with 504", expired=False),
            id="without-words",
        ),
    ],
)
def test_an_error_line_asks_for_a_list(picture: Picture[_Thing], line: bytes, expected: LostTrack) -> None:
    """The server's own error in a watch is told, and one that says 410 is nobody's fault."""
    assert expected == picture.apply(line)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'{"type": "ADDED"}', b'{"type": "ADDED", "object": 5}', b"\xff"]
)
def test_a_line_without_sense_asks_for_a_list(picture: Picture[_Thing], line: bytes) -> None:
    """A line that is no event is not passed over: nobody knows what was in it."""
    _listed(picture, _object("a", 5))
    lost = picture.apply(line)
    assert lost is not None
    assert not lost.expired
    assert _colours(picture) == {"a": "red"}


def test_an_object_that_cannot_be_read_stays_as_it_was_known(picture: Picture[_Thing]) -> None:
    """An object of an unexpected form is complained about by name until it can be read again or has left."""
    _listed(picture, _object("a", 5))
    picture.apply(_line("MODIFIED", "a", 11, 5))
    assert (_colours(picture), picture.complaint) == (
        {"a": "red"},
        "thing-a cannot be read: Expected `str`, got `int` - at `$.colour`",
    )
    _listed(picture, _object("a", 11, 5))
    assert _colours(picture) == {"a": "red"}
    picture.apply(_line("MODIFIED", "a", 12, "blue"))
    assert (_colours(picture), picture.complaint) == ({"a": "blue"}, None)


def test_a_complaint_leaves_with_its_object(picture: Picture[_Thing]) -> None:
    """What was deleted is not complained about any more."""
    _listed(picture, _object("a", 5, 5))
    picture.apply(_line("DELETED", "a", 11, 5))
    assert (_colours(picture), picture.complaint) == ({}, None)


@pytest.mark.parametrize("items", [[5], [{}], [{"metadata": 5}]])
def test_what_is_no_list_of_objects_changes_nothing(picture: Picture[_Thing], items: list[object]) -> None:
    """A list with something else in it raises, and the picture stays."""
    _listed(picture, _object("a", 5))
    page = read_page(json.dumps({"metadata": {"resourceVersion": "11"}, "items": items}).encode())
    with pytest.raises(msgspec.MsgspecError):
        picture.replace([page])
    assert (_colours(picture), picture.version) == ({"a": "red"}, "10")


def test_memory_of_what_has_gone_is_bounded(picture: Picture[_Thing]) -> None:
    """Deletions are remembered for the latest objects only."""
    _listed(picture)
    for number in range(MOST_TOMBSTONES + 5):
        picture.apply(_line("DELETED", f"u{number}", 20))
    assert len(picture._gone) == MOST_TOMBSTONES  # noqa: SLF001 -- a bound that nothing else shows


def test_a_version_that_no_server_writes_is_no_number(picture: Picture[_Thing]) -> None:
    """A number of thousands of digits, or nesting without end, ends nobody."""
    endless = {
        "type": "ADDED",
        "object": {"metadata": {"uid": "z", "resourceVersion": "9" * 5000}, "colour": "red"},
    }
    assert picture.apply(json.dumps(endless).encode()) is None
    assert "z" in picture.objects
    assert picture.apply(b'{"type":' + b"[" * 200_000) is not None
