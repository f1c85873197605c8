"""Nodes at an API server, each with the record of an agent that has no pod. It must not know any rule."""

import msgspec
from tests.unit.extender.nodes import record
from tests.unit.kube_server import FakeApiServer

from railside_proto.names import RECORDS
from railside_proto.record import Record

NODES, PODS = "/api/v1/nodes", "/api/v1/pods"


def put_node(server: FakeApiServer, name: str, found: Record | None = None) -> None:
    """The node ``name``, of which its agent tells ``found``: an idle one unless said."""
    told = found or record(name)
    uid = server.put(NODES, name, status={"nodeInfo": {"bootID": told.boot_id}})["metadata"]["uid"]
    served = msgspec.structs.replace(told, node_uid=uid, agent_uid="")
    server.put(RECORDS, name, status=msgspec.to_builtins(served))
