"""The kinds of values that settings have, with their limits in words. It must not hold a setting or a default."""

from typing import Annotated

from msgspec import Meta

Folder = Annotated[str, Meta(pattern=r"\A/[^\0\n]*\Z", description="an absolute path")]
Prefix = Annotated[
    str, Meta(pattern=r"\A(/[^\0\n]*[^/\0\n])?\Z", description="an absolute path without a last /, or empty")
]
Port = Annotated[int, Meta(ge=1, le=65535, description="a number from 1 to 65535")]
Seconds = Annotated[float, Meta(ge=1, le=3600, description="a number of seconds from 1 to 3600")]
Milliseconds = Annotated[int, Meta(ge=1, le=1000, description="a number of milliseconds from 1 to 1000")]
Megabytes = Annotated[int, Meta(ge=0, le=1024, description="a number of megabytes from 0 to 1024")]
Resource = Annotated[
    str,
    Meta(
        pattern=r"\A[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
        max_length=253,
        description="DOMAIN/NAME such as example.com/rdma: DOMAIN in small letters, NAME of at most 63 letters",
    ),
]
Resources = Annotated[tuple[str, ...], Meta(description="a list of resource names")]
