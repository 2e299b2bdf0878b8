"""Import the collector from memory, where nothing may be left on a disk. Executed by itself, out of the archive."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import CodeType, ModuleType
from zipfile import ZipFile

_NVML = "pynvml"


class Packed(MetaPathFinder, InspectLoader):
    """Modules of a zip archive that is held in memory."""

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        """The archive, for whoever passes the collector on."""
        self._archive = ZipFile(io.BytesIO(packed))
        self._members = {_module(name): name for name in self._archive.namelist()}
        self._code: dict[str, CodeType] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """``None``: it is somebody else's."""
        del path, target
        if fullname not in self._members:
            return None
        return spec_from_loader(fullname, self, origin=self._origin(fullname), is_package=self.is_package(fullname))

    def is_package(self, fullname: str) -> bool:
        """It has a folder."""
        return self._members[fullname].endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        """Also what a traceback quotes."""
        return self._archive.read(self._members[fullname]).decode("utf-8")

    def get_code(self, fullname: str) -> CodeType:
        """Compiled once: a process that is forked later finds it compiled."""
        if fullname not in self._code:
            self._code[fullname] = self.source_to_code(self.get_source(fullname), self._origin(fullname))
        return self._code[fullname]

    def compile_nvml(self) -> None:
        """Every child that asks NVML imports its module anew, and compiling takes longer than asking."""
        if _NVML in self._members:
            self.get_code(_NVML)

    def _origin(self, fullname: str) -> str:
        return f"<collector>/{self._members[fullname]}"


def run(packed: bytes, module: str, arguments: Sequence[str]) -> int:
    """``main(arguments)`` of a module of the archive."""
    finder = Packed(packed)
    sys.meta_path.insert(0, finder)
    finder.compile_nvml()
    return import_module(module).main(arguments)


def _module(member: str) -> str:
    """``a/b/__init__.py`` -> ``a.b``."""
    name = member[: -len(".py")].replace("/", ".")
    return name[: -len(".__init__")] if name.endswith(".__init__") else name
