import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.builders import LogLines
from tests.unit.kube_server import FakeApiServer
from tests.unit.running import running

from railside_runtime.kube import KubeApi
from railside_runtime.kube_error import KubeError
from railside_runtime.reflector import Lines, Pace, Query, Reflector, Seen

PODS = "/api/v1/pods"
QUICK = Pace(first_pause=0.002, longest_pause=0.02, settled=5.0, idle=5.0)


class _Thing(msgspec.Struct, frozen=True):
    colour: str = ""


class _Watched:
    """A server, and a reflector that follows it."""

    def __init__(
        self, server: FakeApiServer, folder: Path, pace: Pace = QUICK, deadline_seconds: float = 5.0
    ) -> None:
        self.server = server
        self.written = LogLines()
        self.api = KubeApi(server.kubeconfig(folder), deadline_seconds=deadline_seconds)
        query = {"fieldSelector": "spec.nodeName=n1"}
        self.reflector = Reflector(self.api, PODS, query, _Thing, log=self.written.log, pace=pace)

    async def until(self, accept: Callable[[Seen[_Thing]], bool]) -> Seen[_Thing]:
        async with asyncio.timeout(10):
            return await self.reflector.seen.until(accept)

    async def level(self) -> Seen[_Thing]:
        """The picture, once it is the server's and nothing is wrong."""

        def is_level(seen: Seen[_Thing]) -> bool:
            there = {one["metadata"]["uid"]: one["colour"] for one in self.server.objects.get(PODS, {}).values()}
            shown = {uid: thing.colour for uid, thing in seen.objects.items()}
            return seen.synced and seen.problem is None and shown == there

        return await self.until(is_level)


@asynccontextmanager
async def _watched(folder: Path, **how: Pace | float) -> AsyncIterator[_Watched]:
    async with FakeApiServer() as server:
        watched = _Watched(server, folder, **how)  # type: ignore[arg-type]  # as the constructor takes it
        async with running(watched.reflector):
            yield watched
        await watched.api.close()


async def test_a_list_and_a_watch_show_the_servers_objects(tmp_path: Path) -> None:
    """What is there is listed, and what comes, changes and goes afterwards arrives by one watch."""
    async with _watched(tmp_path) as watched:
        watched.server.put(PODS, "a", colour="red")
        await watched.level()
        await watched.server.until_asked(1, watch="1")
        watched.server.put(PODS, "a", colour="blue")
        watched.server.put(PODS, "b", colour="red")
        await watched.level()
        watched.server.delete(PODS, "a")
        await watched.level()
        assert [one.query.get("watch") for one in watched.server.asked] == [None, "1"]
        assert {one.query["fieldSelector"] for one in watched.server.asked} == {"spec.nodeName=n1"}


async def test_a_first_list_may_come_from_the_servers_cache(tmp_path: Path) -> None:
    """Agents that start all at once do not read etcd; a list that follows one already seen asks for the truth."""
    async with _watched(tmp_path) as watched:
        await watched.server.until_asked(1, watch="1")
        watched.server.forget()
        await watched.server.until_asked(2, watch="1")
        lists = [one.query.get("resourceVersion") for one in watched.server.asked if "watch" not in one.query]
        assert lists == ["0", None]


async def test_a_long_list_comes_in_pages(tmp_path: Path) -> None:
    """All pages together are one picture, and none of it is shown before the last."""
    async with FakeApiServer() as server:
        for number in range(7):
            server.put(PODS, f"p{number}", colour="red")
        watched = _Watched(server, tmp_path, msgspec.structs.replace(QUICK, page=3))
        pictures: set[int] = set()

        async def note() -> None:
            async for seen in watched.reflector.seen.changes():
                pictures.add(len(seen.objects))

        noting = asyncio.create_task(note())
        async with running(watched.reflector):
            await watched.level()
        noting.cancel()
        await watched.api.close()
        assert [one.query.get("limit") for one in server.asked][:3] == ["3"] * 3
        assert pictures == {0, 7}


async def test_a_bookmark_spares_the_next_watch(tmp_path: Path) -> None:
    """A watch goes on from the last bookmark, though nothing happened to our objects meanwhile."""
    async with _watched(tmp_path) as watched:
        await watched.server.until_asked(1, watch="1")
        watched.server.put("/elsewhere", "x")
        watched.server.bookmark()
        await _passed_on(watched)
        watched.server.drop()
        (_, second) = (await watched.server.until_asked(2, watch="1"))[:2]
        assert second.query["resourceVersion"] == "102"
        assert second.query["allowWatchBookmarks"] == "true"


async def _passed_on(watched: _Watched) -> None:
    """Return when all that was said in the watch has arrived: what is said last arrives last."""
    watched.server.put(PODS, "last", colour="red")
    await watched.level()


async def test_a_version_that_the_server_forgot_is_listed_again(tmp_path: Path) -> None:
    """A 410, in the watch or as its answer, costs a list and is no problem that anybody must hear of."""
    async with _watched(tmp_path) as watched:
        watched.server.put(PODS, "a", colour="red")
        await watched.server.until_asked(1, watch="1")
        watched.server.put(PODS, "b", colour="red")
        watched.server.delete(PODS, "a")
        watched.server.forget()
        await watched.server.until_asked(2, watch="1")
        await watched.level()
        assert watched.written.events == []


async def test_a_version_that_was_forgotten_meanwhile_is_listed_again(tmp_path: Path) -> None:
    """A watch that is refused with 410 costs a list, and that refusal is no problem either."""
    async with _watched(tmp_path) as watched:
        watched.server.put(PODS, "a", colour="red")
        await watched.level()
        await watched.server.until_asked(1, watch="1")
        await watched.server.stop()
        await watched.until(lambda seen: seen.problem is not None)
        watched.server.put(PODS, "b", colour="red")
        watched.server.delete(PODS, "a")
        watched.server.forget()
        await watched.server.start()
        await watched.level()
        assert ["cannot be reached" in line.get("detail", "") for line in watched.written.lines] == [True, False]


@pytest.mark.parametrize(("status", "is_listed_again"), [(429, False), (500, False), (503, False), (403, True)])
async def test_what_may_pass_costs_no_list(tmp_path: Path, status: int, *, is_listed_again: bool) -> None:
    """A server that is overloaded or ill is watched from where it was; one that refuses is listed again."""
    async with _watched(tmp_path) as watched:
        await watched.server.until_asked(1, watch="1")
        watched.server.refuse = status
        watched.server.drop()
        await watched.until(lambda seen: seen.problem is not None)
        await watched.server.until_asked(len(watched.server.asked) + 2)
        watched.server.refuse = 0
        await watched.level()
        lists = [one for one in watched.server.asked if "watch" not in one.query]
        assert is_listed_again == (len(lists) > 1)


async def test_a_watch_that_ends_goes_on_where_it_was(tmp_path: Path) -> None:
    """After a cut connection the watch is opened from the last version, without a list."""
    async with _watched(tmp_path) as watched:
        await watched.server.until_asked(1, watch="1")
        for colour in ("red", "blue", "green"):
            watched.server.put(PODS, "a", colour=colour)
            await watched.level()
            watched.server.drop()
        await watched.server.until_asked(4, watch="1")
        assert [one for one in watched.server.asked if "watch" not in one.query][1:] == []


async def test_a_half_open_connection_is_noticed(tmp_path: Path) -> None:
    """A watch that says nothing, not even a bookmark, is opened anew and nothing is lost."""
    async with _watched(tmp_path, pace=msgspec.structs.replace(QUICK, idle=0.05)) as watched:
        watched.server.mute = True
        await watched.server.until_asked(1, watch="1")
        watched.server.put(PODS, "a", colour="red")
        watched.server.mute = False
        await watched.level()
        assert watched.written.events == []


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
async def test_a_refusal_is_told_once_and_the_picture_stays(tmp_path: Path, status: int) -> None:
    """While the server refuses, the last picture stays with the problem beside it; then all is well again."""
    async with _watched(tmp_path) as watched:
        watched.server.put(PODS, "a", colour="red")
        before = await watched.level()
        await watched.server.until_asked(1, watch="1")
        watched.server.refuse = status
        watched.server.drop()
        refused = await watched.until(lambda seen: seen.problem is not None)
        await watched.server.until_asked(len(watched.server.asked) + 5)
        watched.server.put(PODS, "b", colour="red")
        watched.server.refuse = 0
        await watched.level()
        assert (refused.objects, refused.synced) == (before.objects, True)
        assert refused.problem == "no, says the server"
        told = ["the API server's objects may be old", "the API server is watched again"]
        assert [line["event"] for line in watched.written.lines] == told


async def test_a_server_may_be_absent_at_first_and_later(tmp_path: Path) -> None:
    """Without a server nothing is synced and the problem says why; it may come, go and come again."""
    async with FakeApiServer() as server:
        watched = _Watched(server, tmp_path)
        await server.stop()
        async with running(watched.reflector):
            absent = await watched.until(lambda seen: seen.problem is not None)
            assert not absent.synced
            assert "cannot be reached" in (absent.problem or "")
            for number in range(2):
                await server.start()
                server.put(PODS, f"p{number}", colour="red")
                await watched.level()
                await server.stop()
                gone = await watched.until(lambda seen: seen.problem is not None)
                assert (len(gone.objects), gone.synced) == (number + 1, True)
        await watched.api.close()


async def test_what_is_no_list_is_a_problem(tmp_path: Path) -> None:
    """An answer that is no JSON is told like an absent server."""
    async with _watched(tmp_path) as watched:
        watched.server.garbage = True
        watched.server.drop()
        seen = await watched.until(lambda seen: seen.problem is not None)
        assert (seen.problem or "").startswith("the answer is no list of objects")


async def test_an_object_that_cannot_be_read_is_a_problem_and_hides_no_other(tmp_path: Path) -> None:
    """One object of an unexpected form is told by its name, and the others are shown."""
    async with _watched(tmp_path) as watched:
        watched.server.put(PODS, "odd", colour=5)
        watched.server.put(PODS, "a", colour="red")
        seen = await watched.until(lambda seen: seen.problem is not None and len(seen.objects) == 1)
        assert (seen.problem or "").startswith("odd cannot be read")


class _Absent:
    """A server that is away, and when it was asked."""

    def __init__(self) -> None:
        self.times: list[float] = []

    async def get(self, _path: str, _query: Query) -> bytes:
        self.times.append(asyncio.get_running_loop().time())
        raise KubeError(0, "nobody there")

    @asynccontextmanager
    async def watch(self, _path: str, _query: Query) -> AsyncIterator[Lines]:
        raise AssertionError("nothing was listed")
        yield  # type: ignore[unreachable]  # makes it a generator


@pytest.mark.looptime
async def test_an_absent_server_is_asked_ever_more_slowly_and_told_once(written: LogLines) -> None:
    """A day without a server costs a question each half minute or so, and one line."""
    absent = _Absent()
    reflector = Reflector(absent, PODS, {}, _Thing, log=written.log)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(86400):
            await reflector.run()
    gaps = [later - earlier for earlier, later in pairwise(absent.times)]
    assert gaps[0] < 1
    assert all(15 <= gap <= 46 for gap in gaps[8:])
    assert len(absent.times) < 86400 / 25
    assert len(written.lines) == 1


class _Empty:
    """A server whose watches end as soon as they are open."""

    def __init__(self) -> None:
        self.opened = 0

    async def get(self, _path: str, _query: Query) -> bytes:
        return b'{"metadata": {"resourceVersion": "1"}, "items": []}'

    @asynccontextmanager
    async def watch(self, _path: str, _query: Query) -> AsyncIterator[Lines]:
        self.opened += 1
        yield self

    async def line(self, _deadline_seconds: float) -> bytes | None:
        return None


@pytest.mark.looptime
async def test_watches_that_end_at_once_do_not_spin(written: LogLines) -> None:
    """A server that ends every watch at once is asked as seldom as an absent one."""
    empty = _Empty()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(3600):
            await Reflector(empty, PODS, {}, _Thing, log=written.log).run()
    assert empty.opened < 200


_NAMES = ("a", "b", "c")
_STEPS = [
    *((action, name) for action in ("red", "blue", "delete", "again") for name in _NAMES),
    *(
        (fault, "")
        for fault in ("drop", "forget", "refuse", "hang", "away", "bookmark", "stutter", "mute", "page")
    ),
    *(("breathe", ""), ("breathe ", ""), ("level", "")),
]


async def _take(step: tuple[str, str], watched: _Watched) -> None:
    action, name = step
    server = watched.server
    actions: dict[str, Callable[[], Awaitable[object] | object]] = {
        "delete": lambda: server.delete(PODS, name),
        "again": lambda: server.replace(PODS, name, colour="green"),
        "drop": server.drop,
        "forget": server.forget,
        "bookmark": server.bookmark,
        "refuse": lambda: setattr(server, "refuse", 0 if server.refuse else 500),
        "hang": lambda: setattr(server, "hang", not server.hang),
        "stutter": lambda: setattr(server, "stutter", not server.stutter),
        "mute": lambda: setattr(server, "mute", not server.mute),
        "page": lambda: setattr(server, "page", 1 - server.page),
        "away": server.stop,
        "level": lambda: _heal(watched),
    }
    done = actions.get(action.strip(), lambda: None)()
    if action in {"red", "blue"}:
        server.put(PODS, name, colour=action)
    if isinstance(done, Awaitable):
        await done
    if action.startswith("breathe"):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.02):
                await server.until_asked(len(server.asked) + 1)


async def _heal(watched: _Watched) -> None:
    """End every fault; return when the picture is the server's."""
    await watched.server.recover()
    await watched.level()


async def _live_through(steps: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pace = msgspec.structs.replace(QUICK, idle=0.05)
        async with _watched(Path(folder), pace=pace, deadline_seconds=0.1) as watched:
            for step in steps:
                await _take(step, watched)
            await _heal(watched)


@settings(deadline=None, max_examples=25)
@given(steps=st.lists(st.sampled_from(_STEPS), max_size=30))
def test_whatever_happens_the_picture_ends_as_the_servers(steps: list[tuple[str, str]]) -> None:
    """A reflector that lives through any changes and faults ends with exactly the server's objects."""
    asyncio.run(_live_through(steps))
