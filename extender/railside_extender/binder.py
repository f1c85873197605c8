"""Binds a pod to its node at the API server, once the node is found fit again. It must not choose the node."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from railside_extender.wire import BindingArgs
from railside_proto.decoding import UNDECODABLE
from railside_runtime.kube_error import KubeError


class Api(Protocol):
    """What binding needs of the API server."""

    async def get(self, path: str) -> bytes:
        """What is at ``path``. Raises KubeError."""

    async def post(self, path: str, body: object) -> bytes:
        """Make an object. Raises KubeError."""


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class Binder:
    """Binds; ``obstacle`` says what stands in the way by now."""

    def __init__(self, api: Api, obstacle: Callable[[str, str], str | None]) -> None:
        """``obstacle`` is given the pod's UID and the node."""
        self._api = api
        self._obstacle = obstacle

    async def bind(self, asked: BindingArgs) -> str:
        """Bind the pod; what went wrong, or nothing.

        A pod that turns out to be on the node already is bound: the answer to an earlier try was lost.
        """
        obstacle = self._obstacle(asked.uid, asked.node)
        if obstacle is not None:
            return obstacle
        pod = f"/api/v1/namespaces/{asked.namespace}/pods/{asked.name}"
        try:
            await self._api.post(f"{pod}/binding", _binding(asked))
        except KubeError as error:
            return "" if await self._is_bound(pod, asked) else error.message
        return ""

    async def _is_bound(self, pod: str, asked: BindingArgs) -> bool:
        try:
            found = msgspec.json.decode(await self._api.get(pod), type=_Pod)
        except (KubeError, *UNDECODABLE):
            return False
        return (found.metadata.uid, found.spec.node_name) == (asked.uid, asked.node)


def _binding(asked: BindingArgs) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": asked.name, "namespace": asked.namespace, "uid": asked.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": asked.node},
    }
