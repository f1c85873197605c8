"""Answers for a registry of every host name at once, serving the OCI layouts that lie in one folder.

``python -m harness.registry FOLDER``. A layout laid into the folder is served from then on.
It must not take images in, nor know what they are for.
"""

import json
import sys
from pathlib import Path
from typing import Any

from aiohttp import web

from harness.network import CONTROL_PLANE

PORT = 5000
URL = f"http://{CONTROL_PLANE}:{PORT}"
DEFAULT_HOST = "docker.io"
NAME_ANNOTATION = "io.containerd.image.name"
FOLDER = web.AppKey("FOLDER", Path)


def digest_of(folder: Path, reference: str) -> str | None:
    """The digest of the image ``HOST/NAME:TAG``, if one of the layouts holds it."""
    for index in folder.glob("*/index.json"):
        for manifest in json.loads(index.read_bytes())["manifests"]:
            if manifest["annotations"][NAME_ANNOTATION] == reference:
                return str(manifest["digest"])
    return None


def blob(folder: Path, digest: str) -> Path:
    """The file of a digest, from whichever layout has it; 404 if none has."""
    for path in folder.glob(f"*/blobs/{digest.replace(':', '/')}"):
        return path
    raise web.HTTPNotFound(text=f"no layout has {digest}")


async def base(_: web.Request) -> web.Response:
    """Say that this is a registry."""
    return web.json_response({})


async def manifest(request: web.Request) -> web.Response:
    """A manifest by tag or digest."""
    folder = request.app[FOLDER]
    name, tag = request.match_info["name"], request.match_info["reference"]
    digest = tag if ":" in tag else digest_of(folder, f"{request.query.get('ns', DEFAULT_HOST)}/{name}:{tag}")
    if digest is None:
        raise web.HTTPNotFound(text=f"no layout is named {name}:{tag}")
    body = blob(folder, digest).read_bytes()
    content: dict[str, Any] = json.loads(body)
    headers = {"Docker-Content-Digest": digest, "Content-Type": content["mediaType"]}
    return web.Response(body=body, headers=headers)


async def content(request: web.Request) -> web.FileResponse:
    """A layer or a configuration by digest."""
    path = blob(request.app[FOLDER], request.match_info["digest"])
    return web.FileResponse(path, headers={"Content-Type": "application/octet-stream"})


def application(folder: Path) -> web.Application:
    """The registry of the layouts in ``folder``."""
    app = web.Application()
    app[FOLDER] = folder
    app.router.add_get("/v2/", base)
    app.router.add_get("/v2/{name:.+}/manifests/{reference}", manifest)
    app.router.add_get("/v2/{name:.+}/blobs/{digest}", content)
    return app


def main() -> None:
    """Serve until killed."""
    (folder,) = sys.argv[1:]
    web.run_app(application(Path(folder)), host=str(CONTROL_PLANE), port=PORT, print=None)


if __name__ == "__main__":
    main()
