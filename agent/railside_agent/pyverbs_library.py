"""Makes Debian's python3-pyverbs usable on an event loop: it hides how to hear without blocking.

pyverbs shows no descriptor of a device's events, and waits for one while it holds up every thread of the process.
So the descriptor is found by its name among our own and made non-blocking, before anybody hears. It must not be
imported where verbs are not wanted, and must not require pyverbs: it is loaded when it is used.
"""

import contextlib
import errno
import importlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from railside_agent.verbs import VerbsError

OUR_DESCRIPTORS: Final = Path("/proc/self/fd")

_EVENTS: Final = "anon_inode:[infinibandevent]"
_MOST_AT_ONCE: Final = 64


def load_pyverbs(descriptors: Path = OUR_DESCRIPTORS) -> "Pyverbs":
    """The library. Blocks. Raises VerbsError where it is not installed for this Python."""
    try:
        return Pyverbs(importlib.import_module("pyverbs.device"), descriptors)
    except ImportError as error:
        raise VerbsError(f"pyverbs cannot be loaded ({error}); install python3-pyverbs") from error


class Pyverbs:
    """pyverbs.device, or what looks like it."""

    def __init__(self, device_module: Any, descriptors: Path) -> None:  # noqa: ANN401 -- pyverbs has no types
        """Find a device's descriptor in the folder ``descriptors``."""
        self._module = device_module
        self._descriptors = descriptors
        # What is new among the descriptors must be of one device.
        self._opening = threading.Lock()

    def open(self, device: str) -> "PyverbsHandle":
        """Open the device of that name. Blocks. Raises VerbsError."""
        with self._opening:
            before = self._event_descriptors()
            context = self._context(device)
            new = self._event_descriptors() - before
        if len(new) != 1:
            _close(context)
            raise VerbsError(f"{device} has {len(new)} new descriptors named {_EVENTS}; expected is one")
        (descriptor,) = new
        os.set_blocking(descriptor, False)
        return PyverbsHandle(context, descriptor)

    def _context(self, device: str) -> Any:  # noqa: ANN401 -- pyverbs has no types
        try:
            return self._module.Context(name=device)
        except Exception as error:  # pyverbs' own types, which are not there where it is not
            raise VerbsError(f"{device} cannot be opened ({error}); verbs need a privileged pod") from error

    def _event_descriptors(self) -> set[int]:
        return {int(entry.name) for entry in self._descriptors.iterdir() if _target(entry) == _EVENTS}


class PyverbsHandle:
    """One device that is open."""

    def __init__(self, context: Any, descriptor: int) -> None:  # noqa: ANN401 -- pyverbs has no types
        """Take over ``context``, whose ``descriptor`` does not block."""
        self._context = context
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int:
        """Readable when there are events."""
        return self._descriptor

    def events(self) -> Sequence[int]:
        """The kinds of all events that wait, acknowledged. Does not block. Raises VerbsError if it has broken."""
        kinds: list[int] = []
        for _ in range(_MOST_AT_ONCE):
            try:
                event = self._context.get_async_event()
            except Exception as error:
                if getattr(error, "error_code", None) != errno.EAGAIN:
                    raise VerbsError(str(error)) from error
                break
            kinds.append(int(event.event_type))
            # An event that nobody acknowledges makes the device's end wait for ever.
            event.ack()
        return kinds

    def close(self) -> None:
        """Give the device back. Blocks, and raises nothing."""
        _close(self._context)


def _close(context: Any) -> None:  # noqa: ANN401 -- pyverbs has no types
    # A device that is gone cannot be closed well, and need not be.
    with contextlib.suppress(Exception):
        context.close()


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
