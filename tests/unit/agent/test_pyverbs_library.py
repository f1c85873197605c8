import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from railside_agent.pyverbs_library import Pyverbs, load_pyverbs
from railside_agent.verbs import DEVICE_FATAL, VerbsError

_TARGET = "anon_inode:[infinibandevent]"


class _RdmaError(Exception):
    """As PyverbsRDMAErrno."""

    def __init__(self, text: str, error_code: int) -> None:
        super().__init__(text)
        self.error_code = error_code


class _Event:
    def __init__(self, kind: int) -> None:
        self.event_type = kind
        self.acknowledged = 0

    def ack(self) -> None:
        self.acknowledged += 1


class _Context:
    """As pyverbs.device.Context, but its descriptors are pipes."""

    def __init__(self, descriptors: Path, targets: tuple[str, ...]) -> None:
        self.ends = [end for _ in targets for end in os.pipe()]
        for end, target in zip(self.ends[::2], targets, strict=True):
            (descriptors / str(end)).symlink_to(target)
        self.events: list[_Event] = []
        self.error = errno.EAGAIN
        self.closed = False

    def get_async_event(self) -> _Event:
        if not self.events:
            raise _RdmaError("Failed to get async event", self.error)
        return self.events.pop(0)

    def close(self) -> None:
        self.closed = True
        raise _RdmaError("Failed to close", errno.EIO)


class _Module:
    """As pyverbs.device."""

    def __init__(self, descriptors: Path) -> None:
        self.targets: tuple[str, ...] = ("/dev/infiniband/uverbs0", _TARGET)
        self.contexts: list[_Context] = []
        self.refuses = False
        self._descriptors = descriptors

    def Context(self, name: str) -> _Context:  # noqa: N802 -- pyverbs' name
        if self.refuses:
            raise _RdmaError(f"Failed to open device {name}", errno.EPERM)
        self.contexts.append(_Context(self._descriptors, self.targets))
        return self.contexts[-1]


@pytest.fixture
def module(tmp_path: Path) -> Iterator[_Module]:
    module = _Module(tmp_path)
    yield module
    for context in module.contexts:
        for end in context.ends:
            os.close(end)


@pytest.fixture
def library(module: _Module, tmp_path: Path) -> Pyverbs:
    return Pyverbs(module, tmp_path)


def test_the_descriptor_of_events_is_found_and_does_not_block(library: Pyverbs, module: _Module) -> None:
    """Each device's descriptor is the one that its opening made, and is non-blocking before anybody hears."""
    found = [library.open("mlx5_0").descriptor, library.open("mlx5_1").descriptor]
    assert found == [context.ends[2] for context in module.contexts]
    assert [os.get_blocking(descriptor) for descriptor in found] == [False, False]


@pytest.mark.parametrize("targets", [(), (_TARGET, _TARGET)])
def test_a_device_whose_descriptor_is_not_plain_is_closed(
    library: Pyverbs, module: _Module, targets: tuple[str, ...]
) -> None:
    """Without exactly one descriptor a device could block the whole agent: it is not heard."""
    module.targets = targets
    with pytest.raises(VerbsError, match=f"mlx5_0 has {len(targets)} new descriptors"):
        library.open("mlx5_0")
    assert module.contexts[0].closed


def test_a_device_that_cannot_be_opened_says_why(library: Pyverbs, module: _Module) -> None:
    """An unprivileged pod is told what it lacks, in one sentence."""
    module.refuses = True
    with pytest.raises(VerbsError, match=r"mlx5_0 cannot be opened \(Failed to open.*need a privileged pod"):
        library.open("mlx5_0")


def test_all_events_that_wait_are_taken_and_acknowledged(library: Pyverbs, module: _Module) -> None:
    """Every event is acknowledged once, until there is none."""
    handle = library.open("mlx5_0")
    events = [_Event(kind) for kind in (9, 10, DEVICE_FATAL)]
    module.contexts[0].events = list(events)
    assert list(handle.events()) == [9, 10, DEVICE_FATAL]
    assert [event.acknowledged for event in events] == [1, 1, 1]
    assert list(handle.events()) == []


def test_a_device_that_fails_is_told_from_one_without_events(library: Pyverbs, module: _Module) -> None:
    """An error that is not "try again" is the device's end: its descriptor would be readable for ever."""
    handle = library.open("mlx5_0")
    module.contexts[0].error = errno.EIO
    with pytest.raises(VerbsError, match="Failed to get async event"):
        handle.events()


def test_closing_raises_nothing(library: Pyverbs, module: _Module) -> None:
    """A device that is gone cannot be closed well, and need not be."""
    library.open("mlx5_0").close()
    assert module.contexts[0].closed


def test_this_machines_library_opens_no_device_that_is_not_there() -> None:
    """Real pyverbs without such a device, or no pyverbs at all: both are a sentence."""
    with pytest.raises(VerbsError, match=r"cannot be loaded|cannot be opened"):
        load_pyverbs().open("no_such_device")
