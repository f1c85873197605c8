"""Generate the stubs of the kubelet's APIs, or check that the committed ones are what the sources give.

python scripts/protos.py          write proto/railside_proto/pb/*_pb2.py, *.pyi and *_grpc.py
python scripts/protos.py --check  write nothing; exit 1 and name each file that differs
"""

import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

SOURCE_ROOT = Path(__file__).resolve().parent.parent / "proto"
PACKAGE = Path("railside_proto/pb")


def generate(target: Path) -> list[Path]:
    """Write what the ``.proto`` sources give below ``target``; return the files' paths below it."""
    sources = sorted(str(path) for path in (SOURCE_ROOT / PACKAGE).glob("*.proto"))
    outputs = [f"--{kind}_out={target}" for kind in ("python", "pyi", "grpclib_python")]
    # A path of its own, as the plugin's entry point stands beside the interpreter and not on everyone's PATH.
    plugin = f"--plugin=protoc-gen-grpclib_python={Path(sys.executable).parent / 'protoc-gen-grpclib_python'}"
    if protoc.main(["protoc", f"-I{SOURCE_ROOT}", plugin, *outputs, *sources]) != 0:
        raise SystemExit("protoc failed; its message stands above")
    return sorted(path.relative_to(target) for path in (target / PACKAGE).glob("*.py*"))


def differing(fresh_root: Path) -> list[Path]:
    """The generated files that are missing, stale or no longer made by any source."""
    fresh = generate(fresh_root)
    stale = [path for path in fresh if not _same(fresh_root / path, SOURCE_ROOT / path)]
    folder = SOURCE_ROOT / PACKAGE
    committed = {path.relative_to(SOURCE_ROOT) for path in [*folder.glob("*_pb2.py*"), *folder.glob("*_grpc.py")]}
    return sorted({*stale, *(committed - set(fresh))})


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if not arguments:
        generate(SOURCE_ROOT)
        return 0
    with tempfile.TemporaryDirectory() as fresh:
        stale = differing(Path(fresh))
    for path in stale:
        print(f"{path} is not what its source gives: run `make proto`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
