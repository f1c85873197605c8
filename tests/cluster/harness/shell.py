"""Answers for the cluster that a person gets: one node, kubectl ready, and a shell until they leave.

``python -m harness.shell [shell arguments]``. It must not differ from the tests' cluster.
"""

import os
import subprocess
import sys

from harness.cluster import Cluster
from harness.kubelet import NodeSettings
from harness.places import Places
from railside_proto.names import MODE_LABEL

SETTINGS = NodeSettings(numa=2, policy="best-effort", labels={MODE_LABEL: "ib-shared"})
WELCOME = """\
A cluster of one node ({node}, {numa} NUMA nodes, topology policy {policy}) runs in this shell's namespaces.
kubectl is ready. Logs: {workdir}/log and {workdir}/{node}/log. A shell on the node:
  nsenter -t {pid} -a
Leave with "exit" or ctrl-D: the cluster and all that is in it end with this shell.
"""


def main(arguments: list[str]) -> int:
    """Start the cluster and the shell; the shell's exit status."""
    places = Places.of_this_run()
    if places is None:
        raise SystemExit("This shell needs the namespaces of tests/cluster/run --shell; start that instead.")
    with Cluster(places) as cluster, cluster.node(SETTINGS) as node:
        sys.stderr.write(
            WELCOME.format(
                node=node.name,
                numa=SETTINGS.numa,
                policy=SETTINGS.policy,
                workdir=places.workdir,
                pid=node.namespaces.first_pid,
            )
        )
        env = {**os.environ, "KUBECONFIG": str(cluster.kubectl.kubeconfig)}
        shell = os.environ.get("SHELL", "/bin/bash")
        return subprocess.run([shell, *arguments], env=env, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
