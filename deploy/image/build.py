#!/usr/bin/env python3
"""Answers for the project's image: Debian's Python, the locked dependencies and the wheel, as an OCI layout.

build.py [--output FOLDER] [--reference NAME]

It must not hold what people type (the ``cli`` extra), a compiler, a shell or a package manager.
The same inputs give the same digest, Debian's packages of the day among them. Layers that change seldom are kept
outside the clone, the lowest until its recipe changes.
"""

import argparse
import compileall
import configparser
import hashlib
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import base
from oci import PROGRAM, Entry, files_below, write_filtered, write_layer, write_layout

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
REFERENCE = "docker.io/railside/railside:dev"
PYTHON = (3, 11)
#: Where Debian's Python looks for what Debian did not bring.
SITE = "usr/local/lib/python3.11/dist-packages"
CONFIG = {
    "Entrypoint": ["/usr/local/bin/railside-agent"],
    "Env": ["PATH=/usr/local/bin:/usr/bin", "LANG=C.UTF-8", "PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"],
}
LAYERS_KEPT = 4
#: Console scripts of this package need no more than what the image holds.
PROGRAMS_OF = "railside_main."


def run(*argv: str | Path) -> str:
    """What the program printed; ``SystemExit`` with its complaint if it fails."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1"}
    environment.pop("PYTHONPATH", None)
    words = [str(word) for word in argv]
    done = subprocess.run(words, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        raise SystemExit(f"The image cannot be built: {' '.join(words[:3])} ... failed:\n{done.stderr}")
    return done.stdout


def cache() -> Path:
    """The project's folder for what outlives a clone."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("RAILSIDE_CACHE") or f"{home}/railside")


def uv() -> str:
    """The uv that locks and builds: named by ``UV``, on PATH, or the newest that set-up kept."""
    kept = sorted(cache().glob("uv-*/bin/uv"))
    found = os.environ.get("UV") or shutil.which("uv") or (str(kept[-1]) if kept else None)
    if found is None:
        raise SystemExit("The image cannot be built: no uv found; put it on PATH or name it by UV.")
    return found


def cached(name: str, inputs: bytes, make: Callable[[Path], None]) -> Path:
    """The layer ``name`` of these inputs and this recipe, made if it is not kept yet."""
    recipe = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.py")))
    key = hashlib.sha256(recipe + inputs).hexdigest()[:16]
    folder = cache() / "image"
    folder.mkdir(parents=True, exist_ok=True)
    layer = folder / f"{name}-{key}.tar"
    if not layer.exists():
        fresh = folder / f".{name}-{key}-{os.getpid()}.tar"
        make(fresh)
        fresh.rename(layer)
        forget_old(folder, name)
    return layer


def forget_old(folder: Path, name: str) -> None:
    """Keep the newest layers of a name; images made of the others have them still."""
    layers = sorted(folder.glob(f"{name}-*.tar"), key=lambda layer: layer.stat().st_mtime)
    for layer in layers[:-LAYERS_KEPT]:
        layer.unlink(missing_ok=True)


def base_layer(scratch: Path) -> Path:
    """Debian's Python."""

    def make(layer: Path) -> None:
        if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
            raise SystemExit("The image's lowest layer needs root and the Debian package mmdebstrap, once.")
        unpacked = scratch / "base.tar"
        run(*base.command(str(unpacked)))
        write_filtered(unpacked, layer, base.is_kept)

    return cached("base", b"", make)


def dependencies_layer(scratch: Path) -> Path:
    """The agent's locked dependencies, wheels only."""
    export = ("--frozen", "--no-dev", "--no-emit-project", "--no-header", "--format", "requirements.txt")
    requirements = scratch / "requirements.txt"
    requirements.write_text(run(uv(), "export", *export))
    target = ("--python", sys.executable, "--python-version", "3.11", "--python-platform", manylinux())
    strict = ("--no-deps", "--only-binary", ":all:", "--require-hashes")

    def make(layer: Path) -> None:
        site = scratch / "site"
        run(uv(), "pip", "install", "--target", site, *target, *strict, "-r", requirements)
        shutil.rmtree(site / "bin", ignore_errors=True)
        compile_site(site)
        write_layer(layer, files_below(site, SITE))

    return cached("dependencies", requirements.read_bytes(), make)


def manylinux() -> str:
    """The wheels that the base layer's libraries can carry."""
    return f"{platform.machine()}-manylinux_2_28"


def project_layer(scratch: Path) -> Path:
    """The project's wheel and its programs."""
    run(uv(), "build", "--wheel", "--out-dir", scratch / "wheel")
    (wheel,) = (scratch / "wheel").glob("*.whl")
    site = scratch / "project"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    compile_site(site)
    (entry_points,) = site.glob("*.dist-info/entry_points.txt")
    layer = scratch / "project.tar"
    write_layer(layer, [*files_below(site, SITE), *programs(entry_points.read_text())])
    return layer


def programs(entry_points: str) -> list[Entry]:
    """The console scripts that can run in the image."""
    parsed = configparser.ConfigParser()
    parsed.optionxform = str  # type: ignore[assignment,method-assign]  # names keep their case
    parsed.read_string(entry_points)
    scripts = parsed["console_scripts"].items()
    return [program(name, target) for name, target in scripts if target.startswith(PROGRAMS_OF)]


def program(name: str, target: str) -> Entry:
    """The console script ``name`` that calls ``package.module:function``."""
    module, _, function = target.partition(":")
    text = f"#!/usr/bin/python3\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
    return Entry(f"usr/local/bin/{name}", text.encode(), PROGRAM)


def compile_site(site: Path) -> None:
    """Compile what is to be imported, unless another Python builds than the one that will run it."""
    if sys.version_info[:2] == PYTHON:
        compileall.compile_dir(
            site,
            quiet=1,
            stripdir=str(site),
            prependdir=f"/{SITE}",
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )


def main() -> None:
    """Build the image and say what came out."""
    parser = argparse.ArgumentParser(description="Build the project's image as an OCI layout.")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "image")
    parser.add_argument("--reference", default=REFERENCE)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        layers = [base_layer(scratch), dependencies_layer(scratch), project_layer(scratch)]
        digest = write_layout(options.output, options.reference, layers, CONFIG)
        sizes = " + ".join(f"{layer.stat().st_size / 1e6:.1f}" for layer in layers)
    sys.stdout.write(f"{options.reference} {digest} ({sizes} MB) in {options.output}\n")


if __name__ == "__main__":
    main()
