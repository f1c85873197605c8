"""Answers for the cluster that a person gets: one node, kubectl and our manifests ready, and a shell.

``python -m cluster_shell [shell arguments]``. It must not differ from the tests' cluster.
"""

import os
import subprocess
import sys

import yaml

from harness import commands
from harness.cluster import Cluster
from harness.places import Places
from installed_agent import DOCUMENT_NODE, EXAMPLE, MACHINE, lay_out_machine, manifests

WELCOME = """\
A cluster of {kubernetes} and one node ({node}, {numa} NUMA nodes, policy {policy}) runs in this
shell's namespaces, and kubectl is ready. The agent, told that {node} is the machine of
{machine}, and the document's Pod:
  kubectl apply -f {manifest}
  kubectl apply -f {example}
That machine's files, to play with:  {tree}
A shell on the node:  nsenter -t {pid} -a
Logs:  {workdir}/log and {workdir}/{node}/log
Warnings about CgroupV1 and MissingClusterDNS are harmless here.
Leave with "exit" or ctrl-D: the cluster and all that is in it end with this shell.
"""


def main(arguments: list[str]) -> int:
    """Start the cluster and the shell; the shell's exit status."""
    places = Places.of_this_run()
    if places is None:
        raise SystemExit("This shell needs the namespaces of tests/cluster/run --shell; start that instead.")
    with Cluster(places) as cluster, cluster.node(DOCUMENT_NODE) as node:
        manifest = places.workdir / "railside-agent.yaml"
        tree = lay_out_machine(node).tree
        manifest.write_text(yaml.safe_dump_all(manifests(cluster.kubectl, tree)))
        sys.stderr.write(
            WELCOME.format(
                kubernetes=commands.run("kubelet", "--version").strip(),
                node=node.name,
                machine=MACHINE.stem,
                manifest=manifest,
                example=EXAMPLE,
                tree=tree,
                numa=DOCUMENT_NODE.numa,
                policy=DOCUMENT_NODE.policy,
                workdir=places.workdir,
                pid=node.namespaces.first_pid,
            )
        )
        env = {**os.environ, "KUBECONFIG": str(cluster.kubectl.kubeconfig)}
        shell = os.environ.get("SHELL", "/bin/bash")
        return subprocess.run([shell, *arguments], env=env, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
