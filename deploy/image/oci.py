"""Answers for writing OCI images: layers as reproducible tars, and layouts of them in a folder.

It must not know what is in a layer, nor speak to a registry.
"""

import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

MEDIA_TYPE = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PROGRAM, DATA = 0o755, 0o644


@dataclass(frozen=True)
class Entry:
    """A file of a layer (``data``), or a link to ``target``; ``path`` has no leading slash."""

    path: str
    data: bytes = b""
    mode: int = DATA
    target: str | None = None


def write_layer(target: Path, entries: Iterable[Entry]) -> None:
    """Write a tar of ``entries`` that depends on nothing but them: no clock, no owner, no order."""
    known: set[str] = set()
    with tarfile.open(target, "w") as tar:
        for entry in sorted(entries, key=lambda one: one.path):
            for folder in reversed(Path(entry.path).parents[:-1]):
                if str(folder) not in known:
                    known.add(str(folder))
                    tar.addfile(_header(str(folder), tarfile.DIRTYPE, PROGRAM))
            _add(tar, entry)


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    if entry.target is not None:
        link = _header(entry.path, tarfile.SYMTYPE, 0o777)
        link.linkname = entry.target
        tar.addfile(link)
        return
    header = _header(entry.path, tarfile.REGTYPE, entry.mode)
    header.size = len(entry.data)
    tar.addfile(header, io.BytesIO(entry.data))


def _header(path: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    header = tarfile.TarInfo(path)
    header.type, header.mode = kind, mode
    return header  # owner root, time 0


def write_filtered(source: Path, target: Path, is_kept: Callable[[str], bool]) -> None:
    """Write the entries of the tar ``source`` whose path is kept, without their times."""
    with tarfile.open(source) as given, tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
        for member in given:
            if is_kept(member.name):
                member.mtime = 0
                tar.addfile(member, given.extractfile(member) if member.isreg() else None)


def files_below(folder: Path, at: str) -> list[Entry]:
    """The files and links below ``folder`` as entries below ``at``."""
    return [_entry(path, f"{at}/{path.relative_to(folder)}") for path in folder.rglob("*") if _is_entry(path)]


def _is_entry(path: Path) -> bool:
    return path.is_symlink() or path.is_file()


def _entry(path: Path, name: str) -> Entry:
    if path.is_symlink():
        return Entry(name, target=str(path.readlink()))
    return Entry(name, path.read_bytes(), PROGRAM if os.access(path, os.X_OK) else DATA)


def write_layout(folder: Path, reference: str, layers: Iterable[Path], config: Mapping[str, object]) -> str:
    """Make ``folder`` an OCI layout of one image, named by its full reference; return its digest."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "blobs" / "sha256").mkdir(parents=True)
    stored = [_store_file(folder, layer) for layer in layers]
    image = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in stored]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
        "config": _store(folder, image, "config.v1+json"),
        "layers": stored,
    }
    described = _store(folder, manifest, "manifest.v1+json")
    index = {"schemaVersion": 2, "manifests": [{**described, "annotations": _names(reference)}]}
    (folder / "index.json").write_bytes(_json(index))
    (folder / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(described["digest"])


def _names(reference: str) -> dict[str, str]:
    """The short name is for tools in general, the full one for containerd's import."""
    return {
        "io.containerd.image.name": reference,
        "org.opencontainers.image.ref.name": reference.rpartition(":")[2],
    }


def _store(folder: Path, content: object, kind: str) -> dict[str, object]:
    data = _json(content)
    digest = hashlib.sha256(data).hexdigest()
    (folder / "blobs" / "sha256" / digest).write_bytes(data)
    return _descriptor(kind, digest, len(data))


def _store_file(folder: Path, layer: Path) -> dict[str, object]:
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    target = folder / "blobs" / "sha256" / digest
    if not target.exists():
        try:
            target.hardlink_to(layer)
        except OSError:  # the cache lies on another file system
            shutil.copyfile(layer, target)
    return _descriptor("layer.v1.tar", digest, layer.stat().st_size)


def _descriptor(kind: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": f"{MEDIA_TYPE}.{kind}", "digest": f"sha256:{digest}", "size": size}


def _json(content: object) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
