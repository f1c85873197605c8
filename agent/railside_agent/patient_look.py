"""Looks at a machine once, for a program that ends soon: every card is asked at the same time, within a deadline.

It must not be used by what keeps running: a card that hangs keeps a thread, and each look would add one more.
"""

import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from railside_agent.device_nodes import DeviceNodes
from railside_agent.raw_machine import RawMachine, RawPortState, with_port_states
from railside_agent.sysfs import read_machine, read_port_states

ANSWER_DEADLINE_SECONDS: Final = 3.0

Ask = Callable[[Path, str], tuple[RawPortState, ...]]


def look_once(
    root: Path,
    nodes: DeviceNodes,
    *,
    deadline_seconds: float = ANSWER_DEADLINE_SECONDS,
    ask: Ask = read_port_states,
) -> RawMachine:
    """The machine and what those cards answer that answer in time. Blocks no longer than a little more."""
    raw = read_machine(root, nodes)
    return with_port_states(raw, _answers(root, [one.name for one in raw.rdma_devices], deadline_seconds, ask))


def _answers(
    root: Path, names: Iterable[str], deadline_seconds: float, ask: Ask
) -> dict[str, tuple[RawPortState, ...]]:
    """What was answered, by device; a card that fails to be asked has not answered."""
    answers: dict[str, tuple[RawPortState, ...]] = {}

    def ask_one(name: str) -> None:
        answers[name] = ask(root, name)

    # Daemons, as a thread that hangs in the kernel cannot be ended and must not keep the program.
    threads = [threading.Thread(target=ask_one, args=(name,), name=f"ask-{name}", daemon=True) for name in names]
    for thread in threads:
        thread.start()
    end = time.monotonic() + deadline_seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(answers)
