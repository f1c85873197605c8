"""Puts a fault into a module while it is imported, so that no file is touched and no copy is needed.

It must not be used in a process that has imported the module already: the fault would not be there.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType, ModuleType

from tests.faults.fault import Fault, broken


class BrokenImport(MetaPathFinder):
    """Finds the module of one fault, before the editable installation can."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self.used = False
        """Whether the module was imported: if not, no test can have seen the fault."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The broken module; nothing for any other."""
        del path, target
        if fullname != self._fault.module:
            return None
        self.used = True
        file = str(self._fault.path)
        return spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self._fault))

    def install(self) -> None:
        """Be asked before everybody else. Raises RuntimeError where that is too late."""
        if self._fault.module in sys.modules:
            raise RuntimeError(f"{self._fault.module} is imported already")
        sys.meta_path.insert(0, self)


class _Loader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, fault: Fault) -> None:
        super().__init__(fullname, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType:
        """Compiled anew, past the cache of the sound module."""
        source = broken(self._fault, self._fault.path.read_text(encoding="utf-8"))
        return self.source_to_code(source.encode(), self.get_filename(fullname))
