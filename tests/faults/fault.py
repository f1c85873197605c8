"""The table of faults: one broken line of the product each, and the tests that must see it.

It must not run anything: it says what a fault is, and whether it still fits the code.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec

REPOSITORY = Path(__file__).parent.parent.parent
TABLE = Path(__file__).parent / "faults.toml"


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line that is wrong."""

    name: str
    file: str
    """Below the repository: source root, package, module."""
    before: str
    """The whole line as it should be, without its indentation. It stands in the file once."""
    after: str
    """What is put in its place; empty where the line is taken out."""
    tests: tuple[str, ...]
    """Each of them must turn red: with one of its parameters, or just with the one that is named."""
    harm: str
    """What it would do on a real node, and which law or case it breaks."""

    @property
    def path(self) -> Path:
        return REPOSITORY / self.file

    @property
    def module(self) -> str:
        """The name under which the file is imported."""
        return ".".join(Path(self.file).with_suffix("").parts[1:])


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    fault: tuple[Fault, ...]


def read_faults(table: Path = TABLE) -> tuple[Fault, ...]:
    """All faults, in the order of the table. Raises msgspec.MsgspecError where it makes no sense."""
    return msgspec.toml.decode(table.read_bytes(), type=_Table).fault


def broken(fault: Fault, source: str) -> str:
    """``source`` with the fault in it. Raises ValueError where its line does not stand there just once."""
    lines = source.split("\n")
    (place,) = _places(fault, lines)
    indentation = lines[place][: -len(fault.before)]
    lines[place] = indentation + fault.after if fault.after else ""
    return "\n".join(lines)


def misfits(fault: Fault) -> Iterator[str]:
    """Why the fault does not fit the code any more, a sentence each."""
    if not fault.path.is_file():
        yield f"{fault.name}: there is no file {fault.file} any more"
        return
    source = fault.path.read_text(encoding="utf-8")
    count = len(_places(fault, source.split("\n")))
    if count != 1:
        yield f"{fault.name}: its line stands {count} times in {fault.file}, and must stand there once"
        return
    try:
        ast.parse(broken(fault, source))
    except SyntaxError as error:
        yield f"{fault.name}: with it {fault.file} is no Python: {error}"


def _places(fault: Fault, lines: list[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if line.strip() == fault.before]
