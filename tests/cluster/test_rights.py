"""What the agent may do at the API server: as much as its manifests grant, which is as little as it uses.

It answers for the real API server's judgement. It must not test what the agent does with its rights.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster import Cluster
from harness.kubectl import Kubectl
from installed_agent import BASE, NAMESPACE

Right = tuple[str, str, str]
"""API group, resource and verb."""

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:railside-agent"
NOBODY = f"system:serviceaccount:{NAMESPACE}:default"
REVIEW = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SelfSubjectRulesReview",
    "spec": {"namespace": "default"},
}
RIGHTS: set[Right] = {
    ("", "nodes", "list"),
    ("", "nodes", "watch"),
    ("", "pods", "list"),
    ("", "pods", "watch"),
    ("", "events", "create"),
    ("", "events", "patch"),
    ("", "nodes/configz", "get"),
    ("railside.dev", "rdmanodes", "create"),
    ("railside.dev", "rdmanodes", "patch"),
    ("railside.dev", "rdmanodes/status", "patch"),
}


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[list[dict[str, Any]]]:
    """The base's objects, on a cluster without a node for its DaemonSet."""
    objects = list(yaml.safe_load_all(cluster.kubectl("kustomize", BASE)))
    cluster.kubectl.apply(*objects)
    yield objects
    # Not the namespace, which takes its time to go: the next module installs into it.
    cluster.kubectl("delete", "-n", NAMESPACE, "daemonset/railside-agent", "--cascade=foreground")


def rights(kubectl: Kubectl, account: str) -> set[Right]:
    """What an account may do in the namespace of a user's pods, by the API server's own words."""
    # Without validation, for which kubectl would look at more than the account may see.
    words = ("create", "-f", "-", "-o", "json", "--validate=false", f"--as={account}")
    answer = json.loads(kubectl(*words, stdin=json.dumps(REVIEW)))
    return {
        (group, resource, verb)
        for rule in answer["status"]["resourceRules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.usefixtures("installed")
def test_the_agent_may_look_at_nodes_and_pods_and_tell_of_them(kubectl: Kubectl) -> None:
    """Beyond what every service account may do, the API server grants ten rights, in every namespace alike."""
    assert rights(kubectl, ACCOUNT) - rights(kubectl, NOBODY) == RIGHTS


def test_its_container_has_one_capability_and_writes_to_three_folders(installed: list[dict[str, Any]]) -> None:
    """Not privileged, and of the host's folders only those are writable that it must write to."""
    (daemonset,) = (one for one in installed if one["kind"] == "DaemonSet")
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    security = container["securityContext"]

    assert (security["privileged"], security["allowPrivilegeEscalation"]) == (False, False)
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["MKNOD"]}
    assert security["readOnlyRootFilesystem"]
    assert {one["name"] for one in container["volumeMounts"] if not one.get("readOnly")} == {
        "run",
        "state",
        "device-plugins",
    }


def test_an_overlay_brings_another_image(kubectl: Kubectl, tmp_path: Path) -> None:
    """The README's overlay changes the image and nothing else."""
    overlay = {
        "resources": [os.path.relpath(BASE, tmp_path.resolve())],
        "images": [{"name": "railside/railside", "newName": "registry.example/railside", "newTag": "0.1.0"}],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay), encoding="utf-8")

    plain, changed = kubectl("kustomize", BASE), kubectl("kustomize", tmp_path)

    assert plain.replace("railside/railside:dev", "registry.example/railside:0.1.0") == changed
