"""The setting ``pools``: what a pool may say, and what is wrong with pools that cannot be taken.

It must not know where the list came from.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from railside_agent.mode import Configured
from railside_proto.names import RESOURCE
from railside_runtime.setting_kinds import Resource
from railside_runtime.setting_words import allowed, nearest, shown
from railside_runtime.settings import Problem

MOST_SHARES: Final = 1024
SHARES_ALLOWED: Final = (
    f"a number from 1 to {MOST_SHARES}: a longer list would not fit into a message to the kubelet"
)

EXAMPLE: Final = f"[{{resource: {RESOURCE}}}]"
POOLS_ALLOWED: Final = f"a list of pools in YAML or JSON, such as {EXAMPLE}"

Shares = Annotated[int, Meta(ge=1, le=MOST_SHARES, description=SHARES_ALLOWED)]
_LinkLayer = Literal["InfiniBand", "Ethernet"]
_Functions = Literal["auto", "physical", "virtual", "all"]


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One resource name, and what stands behind it; what is not said is as for the whole node."""

    resource: Resource = RESOURCE
    link_layer: _LinkLayer = "InfiniBand"
    functions: _Functions = "auto"
    software_devices: bool = False
    mode: Configured | None = None
    shares_per_hca: Shares | None = None


_FIELDS: Final = {field.encode_name: field for field in msgspec.structs.fields(PoolSettings)}


def pools_problem(value: object) -> Problem:
    """What is wrong first with ``value``, which is no list of pools."""
    if not isinstance(value, list):
        found = "pools is empty" if value is None else f"pools is {shown(value)}"
        return found, f"it must be {POOLS_ALLOWED}"
    if not value:
        return "pools is []", f"there must be at least one pool, such as {EXAMPLE}"
    problems = (problem for number, pool in enumerate(value, start=1) for problem in _problems(number, pool))
    return next(problems, (f"pools is {shown(value)}", f"it must be {POOLS_ALLOWED}"))


def overlap(pools: Iterable[PoolSettings]) -> str | None:
    """Why these do not go together: a device stands behind one resource, and files know both by one name."""
    for one, other in itertools.combinations(pools, 2):
        if one.resource.rpartition("/")[2] == other.resource.rpartition("/")[2]:
            return f"pools has {one.resource} and {other.resource}; their last words must differ"
        if one.link_layer == other.link_layer and {one.functions, other.functions} != {"physical", "virtual"}:
            return (
                f"pools has {one.resource} and {other.resource} for the same {one.link_layer} devices;"
                " they must differ in linkLayer, or one take physical and one virtual functions"
            )
    return None


def _problems(number: int, pool: object) -> Iterator[Problem]:
    if not isinstance(pool, Mapping):
        yield f"pool {number} is {shown(pool)}", f"it must have keys, as the one of {EXAMPLE}"
        return
    for key, said in pool.items():
        if key not in _FIELDS:
            yield f"pool {number} sets {shown(key)}, which is no key of a pool", nearest(key, _FIELDS)
        elif not _fits(said, _FIELDS[key].type):
            yield f"{key} of pool {number} is {shown(said)}", f"it must be {allowed(_FIELDS[key].type)}"


def _fits(value: object, field_type: object) -> bool:
    try:
        msgspec.convert(value, field_type, strict=False)
    except msgspec.ValidationError:
        return False
    return True
