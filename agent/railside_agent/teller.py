"""Tells tidings: to the log, and as Events on the pod or the node that they are about.

It must not decide what is worth telling.
"""

from collections.abc import Callable, Iterable
from typing import Final

from structlog.typing import FilteringBoundLogger

from railside_agent.event_book import Involved, Saying, Type
from railside_agent.pods import Pods
from railside_agent.tidings import Tiding
from railside_runtime.cell import Cell

_TYPES: Final[dict[str, Type]] = {"info": "Normal", "warning": "Warning"}


class Teller:
    """The voice of the agent on one node."""

    def __init__(
        self,
        log: FilteringBoundLogger,
        *,
        node: str,
        pods: Cell[Pods],
        say: Callable[[Saying], None],
    ) -> None:
        """Speak of the node called ``node``; ``say`` has an Event told."""
        self._log = log
        self._node = node
        self._pods = pods
        self._say = say

    def tell(self, tidings: Iterable[Tiding]) -> None:
        """Tell each of ``tidings``."""
        for one in tidings:
            self._write(one)
            if one.event and one.reason is not None:
                self._post(one)

    def _write(self, one: Tiding) -> None:
        pod = self._pods.value.by_uid.get(one.pod or "")
        who = {"pod": f"{pod.namespace}/{pod.name}"} if pod else {"pod_uid": one.pod} if one.pod else {}
        why = (
            {"reason": one.reason.code, "why": one.reason.sentence, "remedy": one.reason.remedy}
            if one.reason
            else {}
        )
        write = self._log.warning if one.level == "warning" else self._log.info
        write(one.what, **one.facts, **who, **why)

    def _post(self, one: Tiding) -> None:
        about = self._pod(one.pod) if one.pod else self._own_node()
        if about is not None and one.reason is not None:
            message = f"{one.reason.sentence}; {one.reason.remedy}"
            self._say(Saying(about=about, reason=one.reason.code, message=message, type=_TYPES[one.level]))

    def _pod(self, uid: str) -> Involved | None:
        pod = self._pods.value.by_uid.get(uid)
        return Involved(kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid) if pod else None

    def _own_node(self) -> Involved | None:
        # The kubelet and kubectl look a node's Events up by its name, which they take for its UID.
        return Involved(kind="Node", name=self._node, uid=self._node) if self._node else None
