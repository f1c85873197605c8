"""What the real kubelet left to chance, read from its log, so that the embedded one can take the same turns.

It answers for the order in which pods were admitted, for that in which each container's resources were walked, and
for the ids that were taken. It must not make possible what is not: an order is all that it gives.

Chance goes beyond which ids of one NUMA node are taken in four places (pkg/kubelet/cm/devicemanager: manager.go).
Of what an init container had, the next may need a part only, of whatever nodes. Aligned ids of several nodes, or
ids that no hint divides, are left open by a plugin that has no preference, or names too few ids or too many. So is
the rest, on whatever other nodes, where the aligned are too few. And the resource walked first decides which
refusal a pod shows that lacks two, and which plugins were asked before it.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from railside_sim.chance import Turn

_CHECKED = "Topology manager admission check"
_LOOKED = "Looking for needed resources"
_TOOK = "Making allocation request for device plugin"
_LINE = re.compile(f'"({_CHECKED}|{_LOOKED}|{_TOOK})" (.*)')
_FIELD = re.compile(r'(\w+)=(?:"([^"]*)"|(\[[^]]*\]))')
_ID = re.compile(r'"([^"]+)"')


class AdmissionLog:
    """Chance as it was for a kubelet that writes ``log``; ``name_of`` is a pod's name to those who planned it."""

    def __init__(self, log: Path, name_of: Callable[[str], str]) -> None:
        self._log = log
        self._name_of = name_of
        self._read_to = 0
        self._walked: dict[Turn, list[str]] = {}
        self._taken: dict[Turn, list[str]] = {}

    def read(self) -> list[str]:
        """Reads on; the pods that came for admission since the last time, in their order."""
        pods: dict[str, None] = {}
        for what, fields in self._lines():
            pod = self._name_of(fields["pod"].rpartition("/")[2])
            if what == _CHECKED:
                pods[pod] = None
                continue
            turn = Turn(pod, fields["containerName"])
            resource = fields["resourceName"]
            if what == _LOOKED:
                self._walked.setdefault(turn, []).append(resource)
            else:
                self._taken[turn._replace(resource=resource)] = _ID.findall(fields["devices"])
        return list(pods)

    def order(self, items: Iterable[str], turn: Turn) -> list[str]:
        """First those that the real kubelet is known to have come to first."""
        left = sorted(items)
        known = (self._taken if turn.resource else self._walked).get(turn, [])
        before = [item for item in known if item in left]
        return [*before, *(item for item in left if item not in before)]

    def _lines(self) -> Iterator[tuple[str, dict[str, str]]]:
        with self._log.open(errors="replace") as log:
            log.seek(self._read_to)
            text = log.read()
            whole = text[: text.rfind("\n") + 1]
            self._read_to += len(whole.encode())
        for what, rest in _LINE.findall(whole):
            yield what, {name: quoted or listed for name, quoted, listed in _FIELD.findall(rest)}
