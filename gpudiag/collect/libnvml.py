"""NVIDIA's management library through ctypes: the few calls that a look makes, in every version that drivers have.

The machine that is in trouble has no packages, so the library is asked directly. Layouts and numbers are those of
``nvml.h``; a test compares them with NVIDIA's own Python module. A call may never return or end the process: all of
this runs in a child.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import (
    CDLL,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_int64,
    c_uint,
    c_ulonglong,
    c_void_p,
    create_string_buffer,
)
from typing import Any, NamedTuple

LIBRARY = "libnvidia-ml.so.1"
PLACES = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib")
"""Where the loader does not look by itself: containers into which the driver is mounted, WSL."""
LISTS = ("Compute", "Graphics", "MPSCompute")
"""Kinds of process lists, as the names of their functions have them."""
NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, INSUFFICIENT_SIZE = 3, 4, 6, 7
DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, VERSION_MISMATCH = 9, 12, 13, 18
RECOVERY_ACTION = 230
"""``NVML_FI_DEV_GET_GPU_RECOVERY_ACTION``."""
_WORDS = {LIBRARY_NOT_FOUND: f"{LIBRARY} is not installed", FUNCTION_NOT_FOUND: "the driver has no such function"}
_NOT_AVAILABLE = 2**64 - 1
"""``NVML_VALUE_NOT_AVAILABLE``: who asks may not see the size, or the driver model has none."""
_MEMORY_V2 = 0x02000028
_ODD_LISTS = ("535.43.", "535.54.", "535.86.")
"""Drivers whose third version of the process lists has longer entries than all others; read as usual it gives PIDs
that do not exist."""
_ROOM, _ROOM_CAP = 128, 1 << 16
"""Entries for which a list has room at first, and at most."""
_TEXT = 96
"""Bytes of the longest text that is asked for (``NVML_DEVICE_UUID_V2_BUFFER_SIZE``, ``NVML_DEVICE_NAME_V2_…``)."""


class Memory(Structure):
    """``nvmlMemory_t``; ``used`` counts the driver's reserve."""

    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class MemoryV2(Structure):
    """``nvmlMemory_v2_t``; ``used`` leaves the reserve out."""

    _fields_ = (
        ("version", c_uint),
        ("total", c_ulonglong),
        ("reserved", c_ulonglong),
        ("free", c_ulonglong),
        ("used", c_ulonglong),
    )


class ProcessV1(Structure):
    """``nvmlProcessInfo_v1_t``: drivers before 450."""

    _fields_ = (("pid", c_uint), ("usedGpuMemory", c_ulonglong))


class ProcessV2(Structure):
    """``nvmlProcessInfo_v2_t``, which the third version of the functions fills, too."""

    _fields_ = (
        ("pid", c_uint),
        ("usedGpuMemory", c_ulonglong),
        ("gpuInstanceId", c_uint),
        ("computeInstanceId", c_uint),
    )


class PciInfo(Structure):
    """``nvmlPciInfo_t``."""

    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


class AccountingStats(Structure):
    """``nvmlAccountingStats_t``."""

    _fields_ = (
        ("gpuUtilization", c_uint),
        ("memoryUtilization", c_uint),
        ("maxMemoryUsage", c_ulonglong),
        ("time", c_ulonglong),
        ("startTime", c_ulonglong),
        ("isRunning", c_uint),
        ("reserved", c_uint * 5),
    )


class FieldValue(Structure):
    """``nvmlFieldValue_t``; of the union of values only the unsigned number is used."""

    _fields_ = (
        ("fieldId", c_uint),
        ("scopeId", c_uint),
        ("timestamp", c_int64),
        ("latencyUsec", c_int64),
        ("valueType", c_uint),
        ("nvmlReturn", c_uint),
        ("value", c_ulonglong),
    )


class NvmlError(Exception):
    """A call did not succeed; ``code`` is NVML's."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code = code


class Listed(NamedTuple):
    """An entry of a process list."""

    pid: int
    used: int | None
    """Bytes; ``None`` where the driver does not tell."""


class Accounted(NamedTuple):
    """What the driver remembers of a process, ended ones included."""

    pid: int
    peak: int | None
    """The most that it had at a time, bytes."""
    started_us: int
    """Since the Unix epoch."""
    ran_ms: int
    """From its first use of the GPU to its end; 0 while it runs."""
    running: bool


class Library:
    """NVML, initialised."""

    def __init__(self, name: str = LIBRARY, places: Sequence[str] = PLACES) -> None:
        """Raise ``NvmlError`` where it is not there or finds no driver."""
        self._functions = _loaded([name, *(f"{place}/{name}" for place in places)])
        self._call("nvmlInit_v2")
        self._odd_lists = False
        try:
            self._odd_lists = self.driver_version().startswith(_ODD_LISTS)
        except NvmlError as error:
            if error.code != FUNCTION_NOT_FOUND:
                raise

    def count(self) -> int:
        """GPUs that this process may see."""
        return self._number("nvmlDeviceGetCount_v2")

    def gpu(self, index: int) -> Any:
        """The handle of a GPU."""
        return self._handle("nvmlDeviceGetHandleByIndex_v2", c_uint(index))

    def memory(self, handle: Any) -> Memory:
        """Figures by the first version of the call."""
        found = Memory()
        self._call("nvmlDeviceGetMemoryInfo", handle, byref(found))
        return found

    def memory_v2(self, handle: Any) -> MemoryV2:
        """Figures with the reserve apart; drivers from 510."""
        found = MemoryV2(version=_MEMORY_V2)
        self._call("nvmlDeviceGetMemoryInfo_v2", handle, byref(found))
        return found

    def processes(self, handle: Any, kind: str) -> list[Listed]:
        """One of the ``LISTS`` of a GPU or a MIG device."""
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        newest = ("_v2",) if self._odd_lists else ("_v3", "_v2")
        version = next((suffix for suffix in newest if hasattr(self._functions, name + suffix)), "")
        rows = self._list(name + version, handle, ProcessV2 if version else ProcessV1)
        return [Listed(row.pid, None if row.usedGpuMemory == _NOT_AVAILABLE else row.usedGpuMemory) for row in rows]

    def uuid(self, handle: Any) -> str:
        """``GPU-…`` or ``MIG-…``."""
        return self._text("nvmlDeviceGetUUID", handle)

    def name(self, handle: Any) -> str:
        """The model."""
        return self._text("nvmlDeviceGetName", handle)

    def bus_id(self, handle: Any) -> str:
        """``00000000:00:06.0``."""
        found = PciInfo()
        self._call("nvmlDeviceGetPciInfo_v3", handle, byref(found))
        return found.busId.decode("ascii", "replace")

    def mig_enabled(self, handle: Any) -> bool:
        """The GPU is divided into MIG devices."""
        current, pending = c_uint(), c_uint()
        self._call("nvmlDeviceGetMigMode", handle, byref(current), byref(pending))
        return current.value == 1

    def mig_devices(self, handle: Any) -> Iterator[Any]:
        """Handles of a GPU's MIG devices."""
        for index in range(self._number("nvmlDeviceGetMaxMigDeviceCount", handle)):
            try:
                yield self._handle("nvmlDeviceGetMigDeviceHandleByIndex", handle, c_uint(index))
            except NvmlError as error:
                if error.code != NOT_FOUND:  # a slot without a device
                    raise

    def instances(self, handle: Any) -> tuple[int, int]:
        """GPU instance and compute instance of a MIG device."""
        whole = self._number("nvmlDeviceGetGpuInstanceId", handle)
        return whole, self._number("nvmlDeviceGetComputeInstanceId", handle)

    def accounting(self, handle: Any) -> bool:
        """The driver remembers what processes have used."""
        return self._number("nvmlDeviceGetAccountingMode", handle) == 1

    def accounted(self, handle: Any) -> Iterator[Accounted]:
        """All that it remembers."""
        for pid in self._list("nvmlDeviceGetAccountingPids", handle, c_uint):
            found = AccountingStats()
            try:
                self._call("nvmlDeviceGetAccountingStats", handle, c_uint(pid), byref(found))
            except NvmlError as error:
                if error.code != NOT_FOUND:  # pushed out of the buffer meanwhile
                    raise
                continue
            peak = None if found.maxMemoryUsage == _NOT_AVAILABLE else found.maxMemoryUsage
            yield Accounted(pid, peak, found.startTime, found.time, found.isRunning == 1)

    def recovery_action(self, handle: Any) -> int:
        """What the driver says has to be done to the GPU (``NVML_GPU_RECOVERY_ACTION_…``)."""
        found = FieldValue(fieldId=RECOVERY_ACTION)
        self._call("nvmlDeviceGetFieldValues", handle, c_uint(1), byref(found))
        if found.nvmlReturn:
            raise self._error(found.nvmlReturn)
        return found.value & 0xFFFFFFFF

    def driver_version(self) -> str:
        """``580.159.04``."""
        buffer = create_string_buffer(_TEXT)
        self._call("nvmlSystemGetDriverVersion", buffer, c_uint(_TEXT))
        return buffer.value.decode("ascii", "replace")

    def cuda_version(self) -> str:
        """The newest that the driver supports: ``13.0``."""
        number = self._number("nvmlSystemGetCudaDriverVersion_v2")
        return f"{number // 1000}.{number % 1000 // 10}"

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            function = getattr(self._functions, name)
        except AttributeError:
            raise NvmlError(FUNCTION_NOT_FOUND, _WORDS[FUNCTION_NOT_FOUND]) from None
        code: int = function(*arguments)
        if code:
            raise self._error(code)

    def _error(self, code: int) -> NvmlError:
        try:
            words = self._functions.nvmlErrorString
        except AttributeError:
            return NvmlError(code, f"error {code}")
        words.restype = c_char_p
        text: bytes | None = words(c_uint(code))
        return NvmlError(code, f"error {code}" if text is None else text.decode("utf-8", "replace"))

    def _number(self, name: str, *arguments: Any) -> int:
        found = c_uint()
        self._call(name, *arguments, byref(found))
        return found.value

    def _handle(self, name: str, *arguments: Any) -> Any:
        found = c_void_p()
        self._call(name, *arguments, byref(found))
        return found

    def _text(self, name: str, handle: Any) -> str:
        buffer = create_string_buffer(_TEXT)
        self._call(name, handle, buffer, c_uint(_TEXT))
        return buffer.value.decode("utf-8", "replace")

    def _list(self, name: str, handle: Any, layout: Any) -> list[Any]:
        """The entries that a function writes into an array; it says when that has not enough room."""
        room = _ROOM
        while True:
            count, array = c_uint(room), (layout * room)()
            try:
                self._call(name, handle, byref(count), array)
            except NvmlError as error:
                if error.code != INSUFFICIENT_SIZE or room >= _ROOM_CAP:
                    raise
                # Processes may start between the two calls.
                room = min(_ROOM_CAP, max(2 * room, count.value + _ROOM))
                continue
            return list(array[: min(count.value, room)])


def _loaded(paths: Sequence[str]) -> CDLL:
    for path in paths:
        try:
            return CDLL(path)
        except OSError:
            continue
    raise NvmlError(LIBRARY_NOT_FOUND, _WORDS[LIBRARY_NOT_FOUND])
