"""The machine that the demo is to be played on: it is read, or said in one sentence why it cannot be.

It must not play, and must not change anything.
"""

from pathlib import Path
from typing import Final

from railside_cli.complaint import unreadable
from railside_cli.demo.hardware import Hardware, hardware
from railside_sim.manifest import ManifestError, read_manifest
from railside_sim.parts import Manifest

_FEWEST: Final = 4
"""GPUs of each NUMA node with an HCA of their own on their switch, that the story needs."""

_NODES: Final = 2


def machine_for_the_story(path: Path) -> Manifest | str:
    """The machine of the manifest at ``path``, or why the story cannot be played on it."""
    try:
        machine = read_manifest(path)
    except IsADirectoryError:
        return f"{path} is a folder; a machine is a file of text, as those of tests/machines"
    except FileNotFoundError:
        return f"there is no file {path}"
    except UnicodeDecodeError:
        return f"{path} is no text; a machine is a file of text, as those of tests/machines"
    except OSError as error:
        return unreadable(error)
    except ManifestError as error:
        return str(error)
    return _lack(hardware(machine)) or machine


def _lack(machine: Hardware) -> str | None:
    """What the story does not find; None where it finds all, and all of it sound."""
    pairs = {
        zone: sum(one.gpu is not None and one.hca is not None for one in columns)
        for zone, columns in machine.zones().items()
    }
    if len(pairs) >= _NODES and min(pairs.values()) >= _FEWEST:
        return None
    found = ", ".join(f"{count} on {_called(zone)}" for zone, count in sorted(pairs.items()))
    return (
        f"the story needs {_NODES} NUMA nodes, and on each {_FEWEST} GPUs that have a sound HCA of their own on"
        f" their switch; this machine has {found or 'neither'}"
    )


def _called(zone: int) -> str:
    return "no known NUMA node" if zone < 0 else f"NUMA node {zone}"
