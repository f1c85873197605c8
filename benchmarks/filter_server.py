"""The extender's verbs on a made-up cluster, beside an echo of as many names, as a process of its own.

``python -m benchmarks.filter_server PORT NODES UPDATES`` says a line when it listens; UPDATES records and pods
change each second. It must not measure anything.
"""

import asyncio
import contextlib
import sys
import time
from typing import Final

import msgspec
from aiohttp import web

from benchmarks.made_up_cluster import made_up, node_name, pod_on, record_of
from railside_extender import wire
from railside_extender.cluster import Cluster
from railside_extender.decider import Decider, Policy
from railside_extender.server import KEEPALIVE_SECONDS, ExtenderServer
from railside_extender.telemetry import Telemetry
from railside_proto.names import RESOURCE
from railside_runtime.cell import Cell

_TICKS: Final = 20
"""A second; changes come in lots, as they do from a watch."""


async def _echo(request: web.Request) -> web.Response:
    """Every name back: what any extender that decides nothing must do."""
    asked = wire.question(await request.read())
    return web.Response(body=wire.filtered(asked, wire.Answer(names=asked.names)), content_type="application/json")


async def _serve(port: int, nodes: int, updates: int) -> None:
    cluster, moved = made_up(nodes), Cell(0)
    server = ExtenderServer(
        cluster,
        Decider(cluster, Policy(resource=RESOURCE)),
        Telemetry(cluster, ready=lambda: True),
        moved=moved,
        not_ready=lambda: "",
        clock=time.monotonic,
    )
    application = server.application()
    application.router.add_post("/echo", _echo)
    runner = web.AppRunner(application, access_log=None, keepalive_timeout=KEEPALIVE_SECONDS)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(flush=True)
    await _churn(cluster, moved, nodes, updates)


async def _churn(cluster: Cluster, moved: Cell[int], nodes: int, updates: int) -> None:
    """Records are written anew and pods come and go, the nodes' standing changing with them."""
    number = 0
    while True:
        await asyncio.sleep(1 / _TICKS)
        for _ in range(updates // _TICKS):
            number += 1
            node = number * 7919 % nodes
            if number % 2:
                sequence = number
                record = msgspec.structs.replace(record_of(node, is_full=node % 2 == 1), sequence=sequence)
                cluster.see_record(node_name(node), record, time.monotonic())
            else:
                uid = f"churn-{number % 500}"
                gone = cluster.pod(uid) is not None
                cluster.see_pod(uid, None if gone else pod_on(uid, node), time.monotonic())
            moved.set(number)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
