"""One identity for a GPU that sources call by index, UUID or bus id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpudiag.model import Booking, GpuName, GpuRef, GpuSample

Name = tuple[str, str, object]
"""One name of a GPU: host, which kind of name (uuid, bus, index), the name."""


@dataclass(frozen=True)
class Gpu:
    """A GPU of one host, with what stays the same between looks."""

    id: str
    """Its UUID where one is known, else ``host/gpu0``: stable within a report."""
    host: str
    index: int | None
    uuid: str | None
    bus_id: str | None
    name: str | None
    total_mib: float | None
    reserved_mib: float | None
    """``memory.reserved``; constant for a GPU and driver, so one look's figure serves all."""


class GpuIndex:
    """Looks a GPU up by any of its names."""

    def __init__(self, gpus: Iterable[Gpu], by_name: Mapping[Name, str], doubtful: frozenset[Name]) -> None:
        self.gpus = tuple(gpus)
        self._doubtful = doubtful
        self._by_id = {gpu.id: gpu for gpu in self.gpus}
        self._by_name = dict(by_name)

    def of(self, host: str, ref: GpuRef) -> Gpu | None:
        """The GPU that ``ref`` names; a reference without any name is the host's only GPU, if it has one."""
        for key in _keys(host, ref):
            if key in self._by_name and key not in self._doubtful:
                return self._by_id[self._by_name[key]]
        own = [gpu for gpu in self.gpus if gpu.host == host]
        return own[0] if not list(_keys(host, ref)) and len(own) == 1 else None

    def is_another_name(self, gpu: Gpu) -> bool:
        """Known by its UUID only, on a host whose GPUs are all listed by index: it is one of those."""
        own = [other for other in self.gpus if other.host == gpu.host]
        indexed = [other for other in own if other.index is not None and other.uuid is None]
        bare = [other for other in own if other.index is None and other.uuid is not None]
        return gpu in bare and len(bare) <= len(indexed)

    def get(self, gpu_id: str) -> Gpu:
        """The GPU with this id."""
        return self._by_id[gpu_id]


def _keys(host: str, ref: GpuRef) -> Iterable[Name]:
    if ref.uuid is not None:
        yield (host, "uuid", ref.uuid)
    if ref.bus_id is not None:
        yield (host, "bus", ref.bus_id)
    if ref.index is not None:
        yield (host, "index", ref.index)


def index_gpus(samples: Iterable[GpuSample], bookings: Iterable[Booking], names: Iterable[GpuName] = ()) -> GpuIndex:
    """Join references that share a name: rows with two names tie UUID, bus id and index together.

    ``names`` tie as well, but a GPU that is only listed, and of whose memory nothing is known, is none here. A host
    whose only GPU evidence is a list of ``pid,name,used_memory`` has one GPU without any name.
    """
    samples, bookings, names = list(samples), list(bookings), list(names)
    doubtful = _numbers_of_several([*samples, *bookings])
    groups: dict[Name, set[Name]] = {}
    for row in [*samples, *bookings]:
        keys = set(_keys(row.at.host, row.gpu)) - doubtful
        for key in list(keys):
            keys |= groups.get(key, set())
        for key in keys:
            groups[key] = keys
    for row in names:
        keys = set(_keys(row.at.host, row.gpu)) - doubtful
        if keys & groups.keys():
            _unite(groups, keys)
    _join_by_process(groups, bookings)
    gpus: list[Gpu] = []
    by_name: dict[Name, str] = {}
    for keys in sorted({frozenset(group) for group in groups.values()}, key=_group_order):
        gpu = _gpu(keys)
        gpus.append(gpu)
        by_name.update(dict.fromkeys(keys, gpu.id))
    bare = {row.at.host for row in bookings if not list(_keys(row.at.host, row.gpu))} - {gpu.host for gpu in gpus}
    gpus += [Gpu(f"{host}/gpu?".lstrip("/"), host, None, None, None, None, None, None) for host in sorted(bare)]
    index = GpuIndex(gpus, by_name, doubtful)
    return GpuIndex((_with_constants(gpu, samples, names, index) for gpu in gpus), by_name, doubtful)


def _numbers_of_several(rows: Iterable[GpuSample | Booking]) -> frozenset[Name]:
    """Indexes under which one host shows GPUs with different UUIDs or bus ids: they name none of them."""
    shown: dict[Name, dict[str, set[str]]] = {}
    for row in rows:
        if row.gpu.index is None:
            continue
        kinds = shown.setdefault((row.at.host, "index", row.gpu.index), {})
        for kind, name in (("uuid", row.gpu.uuid), ("bus", row.gpu.bus_id)):
            if name is not None:
                kinds.setdefault(kind, set()).add(name)
    return frozenset(key for key, kinds in shown.items() if any(len(names) > 1 for names in kinds.values()))


def _join_by_process(groups: dict[Name, set[Name]], bookings: Sequence[Booking]) -> None:
    """One tool names GPUs by index and another by UUID: a process booked once by each, with one size, joins the two."""
    booked: dict[tuple[str, str | None, int], set[tuple[Name, float | None]]] = {}
    for row in bookings:
        for key in list(_keys(row.at.host, row.gpu))[:1]:
            booked.setdefault((row.at.host, row.at.look, row.pid), set()).add((key, row.mib))
    for rows in booked.values():
        names = {key for key, _ in rows}
        if len(names) == 2 and len({mib for _, mib in rows}) == 1 and len({kind for _, kind, _ in names}) == 2:
            _unite(groups, names)
    for host in {key[0] for key in groups}:
        own = {frozenset(group) for key, group in groups.items() if key[0] == host}
        kinds = [{kind for _, kind, _ in group} for group in own]
        if len(own) == 2 and not kinds[0] & kinds[1]:
            _unite(groups, {key for group in own for key in group})


def _unite(groups: dict[Name, set[Name]], names: set[Name]) -> None:
    joined = {name for key in names for name in groups.get(key, {key})}
    for kind in {kind for _, kind, _ in joined}:
        if sum(name[1] == kind for name in joined) > 1:
            return  # two indexes or two UUIDs are two GPUs, whatever a process says
    for name in joined:
        groups[name] = joined


def _group_order(keys: frozenset[Name]) -> tuple[str, int, str]:
    host = next(iter(keys))[0]
    number = next((value for _, kind, value in keys if kind == "index"), None)
    return (host, number if isinstance(number, int) else 1 << 30, repr(sorted(map(str, keys))))


def _gpu(keys: frozenset[Name]) -> Gpu:
    host = next(iter(keys))[0]
    named = {kind: value for _, kind, value in keys}
    uuid, bus, number = named.get("uuid"), named.get("bus"), named.get("index")
    where = f"gpu{number}" if number is not None else str(bus)
    return Gpu(
        id=str(uuid) if uuid is not None else "/".join(filter(None, (host, where))),
        host=host,
        index=number if isinstance(number, int) else None,
        uuid=str(uuid) if uuid is not None else None,
        bus_id=str(bus) if bus is not None else None,
        name=None,
        total_mib=None,
        reserved_mib=None,
    )


def _with_constants(gpu: Gpu, samples: list[GpuSample], names: list[GpuName], index: GpuIndex) -> Gpu:
    own = [s for s in samples if (found := index.of(s.at.host, s.gpu)) is not None and found.id == gpu.id]
    listed = (n for n in names if (found := index.of(n.at.host, n.gpu)) is not None and found.id == gpu.id)
    reserved = next((s.reserved_mib for s in own if s.reserved_mib is not None), None)
    if reserved is None:
        reserved = _reserve_by_difference(own)
    return replace(
        gpu,
        name=next((s.name for s in own if s.name), None) or next((n.name for n in listed if n.name), None),
        total_mib=next((s.total_mib for s in own if s.total_mib is not None), None),
        reserved_mib=reserved,
    )


def _reserve_by_difference(own: list[GpuSample]) -> float | None:
    """NVML's figure counts the reserve and nvidia-smi's does not: in one look the difference is the reserve.

    Taken only where it is the same in every look that has both, so that memory that moved between the two
    calls is not mistaken for it.
    """
    differences: set[int] = set()
    for look in {s.at.look for s in own if s.at.look is not None}:
        with_reserve = {s.used_mib for s in own if s.at.look == look and s.used_includes_reserve and s.used_mib}
        without = {
            s.used_mib for s in own if s.at.look == look and not s.used_includes_reserve and s.used_mib is not None
        }
        if len(with_reserve) == 1 and len(without) == 1:
            differences.add(round(with_reserve.pop() - without.pop()))
    smallest, largest = min(differences, default=0), max(differences, default=0)
    return float(largest) if differences and smallest >= 0 and largest - smallest <= 2 else None
