"""``railside why`` at an API server."""

import json
from pathlib import Path

import msgspec
import pytest
from rich.console import Console
from tests.unit.cli.test_topo import _lines
from tests.unit.extender.nodes import pod_json, record
from tests.unit.extender.served_nodes import PODS, put_node
from tests.unit.kube_server import FakeApiServer

from railside_cli.exit_status import FINDING, FINE, UNREACHABLE
from railside_cli.why.ask import _found, why
from railside_cli.why.page import page, status, verdict
from railside_cli.why.sight import NoSuchPodError
from railside_proto.machine import PciAddress
from railside_proto.names import GPU_RESOURCE, RECORDS, RESOURCE
from railside_proto.record import HolderRecord, PairRecord


def put_pod(server: FakeApiServer, name: str, *, node: str = "", gpus: int = 4, hcas: int = 4) -> str:
    asked = pod_json(name, gpus=gpus, hcas=hcas, node=node)
    found = server.put(PODS, name, spec=asked["spec"], status=asked["status"])
    return str(found["metadata"]["uid"])


async def test_a_pod_that_waits_is_told_why_node_by_node(server: FakeApiServer, tmp_path: Path) -> None:
    """One verdict line, each node with what is free where, and what to run next."""
    put_node(server, "torn", record("torn", hcas=(2, 2)))
    put_node(server, "small", record("small", gpus=(1, 0)))
    put_pod(server, "train")
    found = await _found("train", "default", server.kubeconfig(tmp_path))
    text = _lines(page(found), width=200)
    asks = f"4 {GPU_RESOURCE} and 4 {RESOURCE}"
    assert text[0] == f"default/train asks for {asks}: 0 of 2 nodes would take it now"
    assert any("torn" in line and "restricted" in line and "n0 4 gpu  2 infiniband-rdma" in line for line in text)
    assert any("NotAlignedNow: no NUMA nodes have" in line for line in text)
    assert text[-1] == "next: kubectl describe pod -n default train"
    assert status(found) == FINDING


async def test_a_pod_that_would_find_a_place_sees_the_best_first(server: FakeApiServer, tmp_path: Path) -> None:
    """The nodes that would take it stand above the others."""
    put_node(server, "a", record("a", hcas=(0, 0)))
    put_node(server, "b")
    put_pod(server, "train")
    found = await _found("train", "default", server.kubeconfig(tmp_path))
    assert [node.node for node in found.nodes] == ["b", "a"]
    assert verdict(found).endswith("1 of 2 nodes would take it now")
    assert status(found) == FINE


async def test_a_pod_that_runs_is_told_what_it_was_given(server: FakeApiServer, tmp_path: Path) -> None:
    """Which HCA, beside which GPU, and how near that is."""
    uid = put_pod(server, "train", node="a", gpus=1, hcas=1)
    pair = PairRecord(gpu=PciAddress("0000:0b:00.0"), hca=PciAddress("0000:0a:00.0"), path="PIX")
    holder = HolderRecord(pod=uid, container="main", held=(), hcas=(pair.hca,), pairs=(pair,))
    put_node(server, "a", record("a", holders={uid: {GPU_RESOURCE: (1, 0), RESOURCE: (1, 0)}}))
    told = server.objects[RECORDS]["a"]["status"]
    server.put(RECORDS, "a", status={**told, "holders": [msgspec.to_builtins(holder)]})
    found = await _found("train", "default", server.kubeconfig(tmp_path))
    text = _lines(page(found))
    assert text[0] == f"default/train on a holds 1 {GPU_RESOURCE} and 1 {RESOURCE}"
    assert any(all(word in line for word in ("main", "0000:0a:00.0", "0000:0b:00.0", "PIX")) for line in text)
    assert text[-1] == "next: kubectl get rdmanode a -o yaml"
    assert status(found) == FINE
    assert json.loads(msgspec.json.encode(found))["holds"][0]["pairs"][0]["path"] == "PIX"


async def test_who_is_not_there_is_one_sentence(server: FakeApiServer, tmp_path: Path) -> None:
    """A pod that nobody knows, under the name that was asked for."""
    put_node(server, "a")
    with pytest.raises(NoSuchPodError, match="there is no pod nobody in namespace default"):
        await _found("nobody", "default", server.kubeconfig(tmp_path))


def test_an_api_server_that_is_away_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is drawn, and the exit status says that nothing was there to look at."""
    missing = str(tmp_path / "nothing")
    assert why("train", "default", missing, Console(), as_json=False) == UNREACHABLE
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("railside: ")
    assert "there is no file" in told.err
