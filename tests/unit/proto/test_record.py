import re
import types
import typing
from collections.abc import Iterator
from enum import Enum
from functools import cache
from typing import Any

import msgspec
import pytest
import yaml
from tests.conftest import REPOSITORY

from railside_proto.machine import PathClass, PciAddress
from railside_proto.names import RECORD_API, RECORD_KIND, RECORDS
from railside_proto.pool import Mode
from railside_proto.reasons import Code
from railside_proto.record import (
    Count,
    DeviceKind,
    DeviceRecord,
    ExcludedRecord,
    HolderRecord,
    KubeletFacts,
    NumaRecord,
    PairRecord,
    PodHolding,
    PoolRecord,
    Record,
    Source,
    TopologyPolicy,
    TopologyScope,
)

_CRD = REPOSITORY / "deploy/crd/rdmanodes.yaml"
_KEYS = {
    "pools": ["resource"],
    "numaNodes": ["number"],
    "devices": ["address"],
    "holders": ["pod", "container"],
    "pods": ["pod"],
}
_PLAIN: dict[Any, str] = {str: "string", int: "integer", bool: "boolean", PciAddress: "string", Code: "code"}
_GPU, _HCA = PciAddress("0000:18:00.0"), PciAddress("0000:1a:00.0")
_COUNT = Count(resource="example.com/ib", numa_nodes=(0,), listed=2, held=1, free=0)
_WHOLE = Record(
    node_uid="node",
    boot_id="boot",
    agent_uid="agent",
    version="1",
    sequence=3,
    kubelet=KubeletFacts(
        source=Source.CONFIGZ,
        topology_policy=TopologyPolicy.RESTRICTED,
        topology_scope=TopologyScope.POD,
        topology_options=("a=true",),
        cpu_policy="static",
        memory_policy="None",
    ),
    pools=(PoolRecord(resource="example.com/ib", mode=Mode.IB_SHARED, share=1, registered=True, hcas=2, free=0),),
    numa_nodes=(NumaRecord(number=0, cpus="0-3", distances=(10,), allocatable_cpus=3, exclusive_cpus=1),),
    counts=(_COUNT,),
    devices=(
        DeviceRecord(
            address=_HCA, path=("pci0000:15",), kind=DeviceKind.HCA, free=0, held=1, reason=Code.NO_ACTIVE_PORT
        ),
        DeviceRecord(address=_GPU, path=("pci0000:15",), numa_node=0, kind=DeviceKind.GPU, free=1, held=0),
    ),
    holders=(
        HolderRecord(
            pod="p",
            container="main",
            held=(_COUNT,),
            hcas=(_HCA,),
            gpus=(_GPU,),
            pairs=(PairRecord(gpu=_GPU, hca=_HCA, path="PIX"),),
        ),
    ),
    pods=(PodHolding(pod="p", held=(_COUNT,)),),
    excluded=(ExcludedRecord(name="mlx5_bond_0", code=Code.ETHERNET_LINK, sentence="it speaks Ethernet"),),
)


@cache
def _definition() -> dict[str, Any]:
    definition: dict[str, Any] = yaml.safe_load(_CRD.read_text(encoding="utf-8"))
    return definition


def _schema() -> dict[str, Any]:
    (version,) = _definition()["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return schema


def _shape(kind: Any) -> object:  # noqa: ANN401 -- a type
    """What the schema must say of values of this type."""
    args = [one for one in typing.get_args(kind) if one is not types.NoneType]
    if isinstance(kind, types.UnionType):
        return _shape(args[0])
    if typing.get_origin(kind) is tuple:
        return [_shape(args[0])]
    if kind in _PLAIN:
        return _PLAIN[kind]
    return {one.value for one in kind} if issubclass(kind, Enum) else _fields(kind)


def _fields(kind: type[msgspec.Struct]) -> dict[tuple[str, bool], object]:
    """By name, and whether it must be there."""
    found = {(one.encode_name, one.required): _shape(one.type) for one in msgspec.structs.fields(kind)}
    return found | ({("path", True): set(PathClass.__members__)} if kind is PairRecord else {})


def _said(schema: dict[str, Any]) -> object:
    """What the schema says, in the same words."""
    match schema:
        case {"type": "object", "properties": properties}:
            return {(name, name in schema.get("required", ())): _said(one) for name, one in properties.items()}
        case {"type": "array", "items": items}:
            return [_said(items)]
        case {"enum": words}:
            return set(words)
        case {"pattern": _}:
            return "code"
        case _:
            return schema["type"]


def _every(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, one in schema.get("properties", {}).items():
        yield from _every(one, f"{path}.{name}")
    if "items" in schema:
        yield from _every(schema["items"], f"{path}[]")


def test_the_schema_is_what_agents_write() -> None:
    """Each field stands in the schema with its type and words, and what an agent may leave out is not required."""
    assert _shape(Record) == _said(_schema())


def test_every_list_has_its_keys_and_its_end() -> None:
    """Lists are merged by their keys or replaced as one, are bounded, and no number is negative."""
    for path, schema in _every(_schema()):
        if schema["type"] == "array":
            keys = _KEYS.get(path.removeprefix("."))
            assert schema["x-kubernetes-list-type"] == ("map" if keys else "atomic"), path
            assert schema.get("x-kubernetes-list-map-keys") == keys, path
            assert schema["maxItems"] > 0, path
        if schema["type"] == "integer":
            assert schema["minimum"] == 0, path


def test_every_code_may_be_told() -> None:
    """The schema takes each code that there is, and those that later agents will have."""
    pattern = next(schema["pattern"] for _, schema in _every(_schema()) if "pattern" in schema)
    assert {schema["pattern"] for _, schema in _every(_schema()) if "pattern" in schema} == {pattern}
    assert all(re.fullmatch(pattern, code) for code in Code)


def test_it_is_called_as_its_writers_and_readers_call_it() -> None:
    """Group, version, kind and path of the definition are those of the names."""
    spec = _definition()["spec"]
    (version,) = spec["versions"]
    assert f"{spec['group']}/{version['name']}" == RECORD_API
    assert (spec["names"]["kind"], f"/apis/{RECORD_API}/{spec['names']['plural']}") == (RECORD_KIND, RECORDS)
    assert (spec["scope"], version["subresources"]) == ("Cluster", {"status": {}})


@pytest.mark.parametrize("record", [_WHOLE, Record(node_uid="n", boot_id="b", version="1")], ids=["whole", "bare"])
def test_a_record_comes_back_as_it_went(record: Record) -> None:
    """What is written is read as the same record, whatever of it was left out."""
    assert record == msgspec.json.decode(msgspec.json.encode(record), type=Record)


def test_what_is_as_by_default_is_left_out() -> None:
    """No null and no empty list goes to the API server, which would take a null for an error."""
    assert msgspec.to_builtins(Record(node_uid="n", boot_id="b", version="1")) == {
        "nodeUid": "n",
        "bootId": "b",
        "version": "1",
    }
    assert b"null" not in msgspec.json.encode(_WHOLE)


def test_a_pair_tells_its_class() -> None:
    """The path of a pair is a class by name."""
    assert PairRecord(gpu=_GPU, hca=_HCA, path="PXB").path_class is PathClass.PXB
