"""Make the tree of a machine of text, as a recording without device nodes.

python scripts/tree.py MANIFEST FOLDER
"""

import sys
from pathlib import Path

from railside_sim.manifest import ManifestError, read_manifest
from railside_sim.tree import write_tree


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    if len(arguments) != 2:  # noqa: PLR2004 -- the two words of the usage
        print(__doc__, file=sys.stderr)
        return 2
    try:
        write_tree(read_manifest(Path(arguments[0])), Path(arguments[1]))
    except (ManifestError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
