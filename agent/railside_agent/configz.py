"""What the kubelet's own configuration says of how it admits pods.

It must not ask the kubelet, nor guess where it does not tell. The form is that of ``KubeletConfiguration``
(kubelet.config.k8s.io/v1beta1) as the kubelet shows it at /configz, under one key.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from railside_proto.decoding import UNDECODABLE
from railside_proto.reasons import Code, Reason, reason
from railside_proto.record import KubeletFacts, Source, TopologyPolicy, TopologyScope

_POLICIES: Final = {one.value: one for one in TopologyPolicy}
_SCOPES: Final = {one.value: one for one in TopologyScope}

Options = Mapping[str, str] | None


class _Configuration(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    # A kubelet that is too old for one of the first two behaves as their defaults say.
    topology_manager_policy: str = TopologyPolicy.NONE
    topology_manager_scope: str = TopologyScope.CONTAINER
    topology_manager_policy_options: Options = None
    cpu_manager_policy: str | None = None
    cpu_manager_policy_options: Options = None
    memory_manager_policy: str | None = None


class _Answer(msgspec.Struct, frozen=True):
    configuration: _Configuration = msgspec.field(name="kubeletconfig")


def read_configz(content: bytes) -> KubeletFacts:
    """The facts that ``content`` tells; those of nobody, with the reason, where it makes no sense."""
    try:
        told = msgspec.json.decode(content, type=_Answer).configuration
    except UNDECODABLE as error:
        return KubeletFacts(detail=f"the kubelet's configuration makes no sense: {error}")
    return KubeletFacts(
        source=Source.CONFIGZ,
        detail=_unknown_words(told),
        topology_policy=_POLICIES.get(told.topology_manager_policy),
        topology_scope=_SCOPES.get(told.topology_manager_scope),
        topology_options=_options(told.topology_manager_policy_options),
        cpu_policy=told.cpu_manager_policy,
        cpu_options=_options(told.cpu_manager_policy_options),
        memory_policy=told.memory_manager_policy,
    )


def refusal(status: int) -> str:
    """Why a kubelet that answers with this HTTP status does not tell."""
    match status:
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return (
                f"the kubelet refuses to show its configuration ({status}): it must ask the API server who may see"
                " it (authentication and authorization by webhook), the agent needs the right nodes/configz, and a"
                " kubelet before 1.33 knows no right as narrow as that"
            )
        case HTTPStatus.NOT_FOUND | HTTPStatus.METHOD_NOT_ALLOWED:
            return f"the kubelet shows its configuration to nobody ({status}, enableDebuggingHandlers is off)"
        case _:
            return f"the kubelet answered {status}"


def lack_of(facts: KubeletFacts) -> tuple[Reason, ...]:
    """What nobody knows of the kubelet, where it was asked and the answer is not whole."""
    return (reason(Code.KUBELET_CONFIG_NOT_TOLD, detail=facts.detail),) if facts.detail else ()


def _unknown_words(told: _Configuration) -> str:
    """Names of policies and scopes that a later kubelet may have brought."""
    words = []
    if told.topology_manager_policy not in _POLICIES:
        words.append(f"its topologyManagerPolicy {told.topology_manager_policy!r} is not known here")
    if told.topology_manager_scope not in _SCOPES:
        words.append(f"its topologyManagerScope {told.topology_manager_scope!r} is not known here")
    return "; ".join(words)


def _options(said: Options) -> tuple[str, ...]:
    return tuple(sorted(f"{name}={value}" for name, value in (said or {}).items()))
