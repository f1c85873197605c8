"""What is to be told as Kubernetes Events, and when: the same again is counted, and nothing is told too often.

One Event stands for one sentence about one object; saying it again raises its count. It must not speak to the API
server or look at a clock: times are passed in. Whatever does not fit is dropped, the oldest first, and counted.
"""

import hashlib
from datetime import UTC, datetime
from typing import Final, Literal

import msgspec

from railside_proto.names import AGENT_COMPONENT

SERIES_SECONDS: Final = 60.0
"""One sentence about one object is posted at most once in this time."""

BURST: Final = 20.0
REFILL_SECONDS: Final = 3.0
"""For all together: so many at once, and then one each so many seconds."""

MOST_SERIES: Final = 256

MOST_REFUSALS: Final = 3
"""An API server that starts refuses everybody for a moment; what it refuses so often it will never take."""

_MESSAGE_BYTES: Final = 1024
_NAME_LENGTH: Final = 200
_DEFAULT_NAMESPACE: Final = "default"
"""Where Events about objects without a namespace stand."""

Type = Literal["Normal", "Warning"]


class Involved(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The object that an Event is about; ``namespace`` is empty for a Node."""

    kind: Literal["Node", "Pod"]
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence about an object, with a reason in one CamelCase word."""

    about: Involved
    reason: str
    message: str
    type: Type = "Warning"


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    component: str
    host: str


class _EventMetadata(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    namespace: str


class Event(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A core/v1 Event, as the API server takes it."""

    api_version: str = "v1"
    kind: str = "Event"
    metadata: _EventMetadata
    involved_object: Involved
    reason: str
    message: str
    type: Type
    count: int
    first_timestamp: str
    last_timestamp: str
    source: _Source
    reporting_component: str
    reporting_instance: str


class Recount(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What changes in an Event that is told again."""

    count: int
    last_timestamp: str


class Make(msgspec.Struct, frozen=True, kw_only=True):
    """Make the Event of ``saying``."""

    saying: Saying
    namespace: str
    body: Event


class Raise(msgspec.Struct, frozen=True, kw_only=True):
    """Raise the count of the Event ``name``, which was made before."""

    saying: Saying
    namespace: str
    name: str
    body: Recount


class _Series:
    """How often something was said, and how much of that is told."""

    def __init__(self, now: datetime) -> None:
        self.first = self.last = now
        self.count = self.told = 0
        self.made: str | None = None
        self.refusals = 0
        self.not_before = float("-inf")


class EventBook:
    """Everything that was said of late. ``dropped`` counts what will never be told."""

    def __init__(self, node: str, series_seconds: float = SERIES_SECONDS) -> None:
        """Tell it in the name of the agent on ``node``, each sentence once in ``series_seconds``."""
        self.dropped = 0
        self._series_seconds = series_seconds
        self._node = node
        self._series: dict[Saying, _Series] = {}
        """The one said last stands last."""
        self._tokens = BURST
        self._filled_at = 0.0

    def say(self, saying: Saying, now: datetime) -> None:
        """Note that ``saying`` was said."""
        series = self._series.pop(saying, None) or _Series(now)
        series.count += 1
        series.last = now
        self._series[saying] = series
        if len(self._series) > MOST_SERIES:
            self._drop(next(iter(self._series)))

    def due(self, at: float) -> Make | Raise | None:
        """What to tell the API server at the time ``at``, in seconds of any clock that only goes forward."""
        self._refill(at)
        for saying, series in self._series.items() if self._tokens >= 1 else ():
            if series.told < series.count and series.not_before <= at:
                return self._step(saying, series)
        return None

    def wait_seconds(self, at: float) -> float | None:
        """How long nothing will be due from ``at`` on; None where nothing is left to tell."""
        waiting = [series.not_before for series in self._series.values() if series.told < series.count]
        if not waiting:
            return None
        self._refill(at)
        return max(min(waiting) - at, (1 - self._tokens) * REFILL_SECONDS, 0.0)

    def told(self, step: Make | Raise, at: float) -> None:
        """The API server has taken ``step``."""
        self._tokens -= 1
        series = self._series.get(step.saying)
        if series is not None:
            series.told = step.body.count
            series.made = step.body.metadata.name if isinstance(step, Make) else step.name
            series.refusals = 0
            series.not_before = at + self._series_seconds

    def forgotten(self, step: Raise) -> None:
        """The API server, which keeps Events for an hour, has no such Event any more: it will be made anew."""
        series = self._series.get(step.saying)
        if series is not None:
            series.made = None

    def refused(self, step: Make | Raise, at: float) -> None:
        """The API server has refused ``step``: it may still come to know our rights, or never take this one."""
        self._tokens -= 1
        series = self._series.get(step.saying)
        if series is not None:
            series.refusals += 1
            series.not_before = at + self._series_seconds
            if series.refusals == MOST_REFUSALS:
                self._drop(step.saying)

    def _drop(self, saying: Saying) -> None:
        series = self._series.pop(saying, None)
        if series is not None:
            self.dropped += series.count - series.told

    def _refill(self, at: float) -> None:
        self._tokens = min(BURST, self._tokens + max(0.0, at - self._filled_at) / REFILL_SECONDS)
        self._filled_at = at

    def _step(self, saying: Saying, series: _Series) -> Make | Raise:
        namespace = saying.about.namespace or _DEFAULT_NAMESPACE
        if series.made is not None:
            recount = Recount(count=series.count, last_timestamp=_stamp(series.last))
            return Raise(saying=saying, namespace=namespace, name=series.made, body=recount)
        event = Event(
            metadata=_EventMetadata(name=_name(saying, series.first), namespace=namespace),
            involved_object=saying.about,
            reason=saying.reason,
            message=saying.message.encode()[:_MESSAGE_BYTES].decode(errors="ignore"),
            type=saying.type,
            count=series.count,
            first_timestamp=_stamp(series.first),
            last_timestamp=_stamp(series.last),
            source=_Source(component=AGENT_COMPONENT, host=self._node),
            reporting_component=AGENT_COMPONENT,
            reporting_instance=self._node,
        )
        return Make(saying=saying, namespace=namespace, body=event)


def _name(saying: Saying, first: datetime) -> str:
    """The same for the same series, so that an Event whose making was not answered is not made twice."""
    whole = f"{first.timestamp()} {saying.about.uid} {saying.reason} {saying.message}"
    return f"{saying.about.name[:_NAME_LENGTH].rstrip('.-')}.{hashlib.sha256(whole.encode()).hexdigest()[:16]}"


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
