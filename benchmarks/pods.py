"""Pods on a full node, as far as the kubelet tells of them: who holds what, in its checkpoint on disk.

It must not call the agent.
"""

import base64
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.bed import MANIFEST
from railside_proto.names import GPU_RESOURCES, RESOURCE

_ANSWER = base64.b64encode(bytes(500)).decode()
"""As long as an answer to Allocate."""


class Node:
    """Each seat is a pod's; a pod that comes takes the place of the one that had its seat."""

    def __init__(self, seats: Sequence[str], checkpoint: Path, *, bytes_at_least: int = 0) -> None:
        self._seats = seats
        self._checkpoint = checkpoint
        self._pods: dict[str, str] = {}
        self._numbers = itertools.count()
        self._bytes_at_least = bytes_at_least
        # The first of them have a GPU each; the others share with nobody, and have none.
        self._gpus = dict(zip(seats, (gpu.uuid for gpu in MANIFEST.gpus), strict=False))

    def next_pods(self) -> Iterator[str]:
        """The seat of each pod that comes, for ever."""
        for seat in itertools.cycle(self._seats):
            self._pods[seat] = f"pod-{next(self._numbers)}"
            yield seat

    def write(self) -> int:
        """Write the checkpoint as the kubelet does, whole or not at all; its size in bytes."""
        content = self._content()
        fresh = self._checkpoint.with_name(".fresh")
        fresh.write_bytes(content)
        fresh.replace(self._checkpoint)
        return len(content)

    def _content(self) -> bytes:
        entries = [entry for seat, pod in self._pods.items() for entry in self._entries(seat, pod)]
        data = {"PodDeviceEntries": entries, "RegisteredDevices": {RESOURCE: list(self._seats)}}
        content = {"Data": data, "Checksum": 0}
        short = self._bytes_at_least - len(msgspec.json.encode(content))
        if short > 0:
            # What other plugins have answered.
            entries.append(_entry("other", "example.com/other", {"0": ["one"]}, "A" * (short // 4 * 4)))
        return msgspec.json.encode(content)

    def _entries(self, seat: str, pod: str) -> Iterator[dict[str, object]]:
        node = seat.partition("-")[0].removeprefix("n")
        yield _entry(pod, RESOURCE, {node: [seat]}, _ANSWER)
        if seat in self._gpus:
            yield _entry(pod, GPU_RESOURCES[0], {node: [self._gpus[seat]]}, "")


def _entry(pod: str, resource: str, ids: dict[str, list[str]], answer: str) -> dict[str, object]:
    return {
        "PodUID": pod,
        "ContainerName": "main",
        "ResourceName": resource,
        "DeviceIDs": ids,
        "AllocResp": answer,
    }
