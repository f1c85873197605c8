"""A picture of some of the API server's objects, drawn from the pages of a list and then from a watch's lines.

Lines may come twice, late or in the wrong order: the newer version of an object stays. It must not do I/O, and
must not lose an object that it cannot read: what it knew of it stays, and the complaint says so.
"""

import contextlib
import re
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

import msgspec

from railside_proto.decoding import UNDECODABLE
from railside_runtime.kube_error import GONE

T = TypeVar("T")

MOST_TOMBSTONES: Final = 1024


_VERSION: Final = re.compile(r"[0-9]{1,20}")

MOST_LAST_SEEN: Final = 64
"""Deleted objects that are kept: who reads them has read the picture before so many more have gone."""


class LostTrack(msgspec.Struct, frozen=True, kw_only=True):
    """The watch cannot be followed any further: a list must come first."""

    why: str
    expired: bool
    """The server has merely forgotten what is that old; it is nobody's fault."""


class _Bookkeeping(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    name: str = ""


class _Keyed(msgspec.Struct):
    metadata: _Bookkeeping


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    more: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct):
    """One page of a list. Raw objects live as long as the page only."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    message: str = ""
    code: int = 0


class _Known(msgspec.Struct, Generic[T], frozen=True):
    version: int
    value: T


class Picture(Generic[T]):
    """The objects, read as ``kind``, and the version up to which they are known."""

    def __init__(self, kind: type[T], *, keeps_changes: bool = False) -> None:
        """Nothing is known yet; ``keeps_changes`` for whoever will ask for them."""
        self.version: str | None = None
        """Where a watch goes on; None where a list must come first."""
        self._decoder = msgspec.json.Decoder(kind)
        self._known: dict[str, _Known[T]] = {}
        self._gone: dict[str, int] = {}
        """Versions of deletions, so that a late line does not bring an object back."""
        self._unread: dict[str, str] = {}
        self._last_seen: dict[str, T] = {}
        self._changes: dict[str, T | None] | None = {} if keeps_changes else None

    def take_changes(self) -> Mapping[str, T | None]:
        """Objects that are others than when this was asked last, by UID; None for one that is gone."""
        changes = self._changes or {}
        if changes:
            self._changes = {}
        return changes

    @property
    def gone(self) -> Mapping[str, T]:
        """Objects that were deleted of late, by UID, as they were at the very end."""
        return dict(self._last_seen)

    @property
    def objects(self) -> Mapping[str, T]:
        """By UID; a new mapping each time."""
        return {uid: known.value for uid, known in self._known.items()}

    @property
    def complaint(self) -> str | None:
        """Which objects cannot be read, if any."""
        return "; ".join(list(self._unread.values())[:3]) or None

    def replace(self, pages: Iterable[Page]) -> None:
        """Be what a whole list shows. Raises msgspec.MsgspecError where it is no list of objects."""
        pages = tuple(pages)
        raws = [raw for page in pages for raw in page.items or ()]
        keys = [msgspec.json.decode(raw, type=_Keyed).metadata for raw in raws]
        before, self._known = self._known, {}
        self._gone, self._unread = {}, {}
        for key, raw in zip(keys, raws, strict=True):
            if key.uid in before:
                self._known[key.uid] = before[key.uid]
            self._take(key, raw)
        for uid in before.keys() - self._known.keys():
            self._note(uid, None)
        self.version = pages[-1].metadata.resource_version

    def apply(self, line: bytes) -> LostTrack | None:
        """Take one line of the watch in; None where the watch goes on."""
        try:
            event = msgspec.json.decode(line, type=_Event)
            if event.type == "ERROR":
                return _lost(msgspec.json.decode(event.object, type=_Status))
            key = msgspec.json.decode(event.object, type=_Keyed).metadata
        except UNDECODABLE as error:
            return LostTrack(why=f"the watch said what makes no sense: {error}", expired=False)
        match event.type:
            case "ADDED" | "MODIFIED":
                self._meet(key, event.object)
            case "DELETED":
                self._part(key, event.object)
            case _:
                pass  # a bookmark, which brings its version alone, or what later servers may add
        self.version = key.resource_version or self.version
        return None

    def _meet(self, key: _Bookkeeping, raw: msgspec.Raw) -> None:
        known = self._known.get(key.uid)
        version = _number(key)
        if version <= self._gone.get(key.uid, -1) or (known is not None and version < known.version):
            return
        self._gone.pop(key.uid, None)
        self._take(key, raw)

    def _part(self, key: _Bookkeeping, raw: msgspec.Raw) -> None:
        known = self._known.get(key.uid)
        version = _number(key)
        if known is not None and version < known.version:
            return
        if self._known.pop(key.uid, None) is not None:
            self._note(key.uid, None)
        self._unread.pop(key.uid, None)
        self._keep_last(key, raw)
        self._gone[key.uid] = max(version, self._gone.get(key.uid, -1))
        if len(self._gone) > MOST_TOMBSTONES:
            del self._gone[next(iter(self._gone))]

    def _keep_last(self, key: _Bookkeeping, raw: msgspec.Raw) -> None:
        with contextlib.suppress(*UNDECODABLE):
            self._last_seen[key.uid] = self._decoder.decode(raw)
        if len(self._last_seen) > MOST_LAST_SEEN:
            del self._last_seen[next(iter(self._last_seen))]

    def _take(self, key: _Bookkeeping, raw: msgspec.Raw) -> None:
        try:
            value = self._decoder.decode(raw)
        except UNDECODABLE as error:
            self._unread[key.uid] = f"{key.name or key.uid} cannot be read: {error}"
            return
        self._unread.pop(key.uid, None)
        known = self._known.get(key.uid)
        self._known[key.uid] = _Known(_number(key), value)
        if known is None or known.value != value:
            self._note(key.uid, value)

    def _note(self, uid: str, value: T | None) -> None:
        if self._changes is not None:
            self._changes[uid] = value


def read_page(text: bytes) -> Page:
    """One page of a list. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(text, type=Page)


def _lost(status: _Status) -> LostTrack:
    return LostTrack(why=status.message or f"the watch ended with {status.code}", expired=status.code == GONE)


def _number(key: _Bookkeeping) -> int:
    """Versions of the API server's own objects are numbers that grow; where they are not, order means nothing."""
    return int(key.resource_version) if _VERSION.fullmatch(key.resource_version) else 0
