"""Recordings of real machines made into what a reader can look at. It must not hold any expectation."""

import json
import re
import tarfile
from pathlib import Path
from typing import Any

_LOOKED_AT = re.compile(
    r"/(vendor|class|numa_node|cpulist|distance|dev|ibdev|node_guid|sys_image_guid|hca_type|fw_ver|board_id"
    r"|link_layer|state|phys_state|rate|lid|sm_lid|information|numa_status)$"
    r"|/(device|driver|physfn)$|class/infiniband|bus/pci/devices"
)
"""What the reader may look at: the whole of a large recording would take seconds to unpack."""


def expected(recordings: Path, folder: str, name: str) -> Any:  # noqa: ANN401 -- JSON
    """What whoever recorded it says must come out."""
    return json.loads((recordings / folder / "expected.json").read_text())[name]


def unpacked(archive: Path, into: Path, *, strip: bool = True) -> Path:
    """The root of a recorded tree; archives with one folder above the tree are entered."""
    with tarfile.open(archive) as tar:
        members = [member for member in tar if _LOOKED_AT.search(member.name)]
        # Debian's 3.11 is older than the filter, which later Pythons ask for.
        safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(into, members=members, **safely)  # noqa: S202 -- recordings are data of our own
    return next(into.iterdir()) if strip else into
