"""Processes followed through looks: identity, presence, orphans."""

from __future__ import annotations

from collections.abc import Sequence

from gpudiag.model import Booking, Coverage, Handle, Process
from gpudiag.timeline.gpus import index_gpus
from gpudiag.timeline.lives import Census, take_census
from gpudiag.timeline.order import clock_of, order_looks
from gpudiag.timeline.orphans import was_adopted
from gpudiag.timeline.views import view_of, whole_tables
from tests.unit.timeline.rows import booking, handle, look_names, process, sample, table


def census(
    processes: Sequence[Process] = (),
    bookings: Sequence[Booking] = (),
    handles: Sequence[Handle] = (),
    coverage: Sequence[Coverage] = (),
    limited: frozenset[str] = frozenset(),
    inside: frozenset[str] = frozenset(),
) -> Census:
    rows = [*processes, *bookings, *handles, *coverage]
    looks = order_looks(look_names("L", "M"), [row.at for row in rows])
    gpus = index_gpus([sample("L", 1)], bookings)
    return take_census(
        looks,
        processes,
        handles,
        bookings,
        coverage,
        gpus,
        clock_of([], processes),
        set(limited),
        set(),
        whole_tables(processes, coverage),
        inside,
    )


def test_one_process_in_two_looks_is_one_life() -> None:
    found = census([process("L", 7, elapsed_s=100), process("M", 7, elapsed_s=110, seconds=10)])
    assert len(found.lives) == 1


def test_the_same_pid_with_another_start_is_another_life() -> None:
    found = census([process("L", 7, elapsed_s=100), process("M", 7, elapsed_s=2, seconds=10)])
    assert len(found.lives) == 2
    ticks = census([process("L", 7, start_ticks=100), process("M", 7, start_ticks=900)])
    assert len(ticks.lives) == 2


def test_absence_counts_only_in_a_complete_table() -> None:
    rows = [process("L", 7), process("M", 8)]
    partial = census(rows, coverage=[table("M", complete=False)])
    assert partial.present(partial.named("box", 7)[0], partial.looks[1]) is None
    whole = census(rows, coverage=[table("M")])
    assert whole.present(whole.named("box", 7)[0], whole.looks[1]) is False
    hidden = census(rows, coverage=[table("M")], limited=frozenset({"M"}))
    assert hidden.present(hidden.named("box", 7)[0], hidden.looks[1]) is None


def test_a_name_in_nvidia_smi_means_alive_and_its_absence_does_not_mean_dead() -> None:
    rows = [booking("M", 7), booking("M", 8, name=None), booking("M", 9, name=None, missing="[Not Found]")]
    found = census(bookings=rows)
    assert {life.pid: found.alive(life, found.looks[1]) for life in found.lives} == {7: True, 8: None, 9: False}
    inside = census(bookings=rows, limited=frozenset({"M"}))
    assert {life.pid: inside.alive(life, inside.looks[1]) for life in inside.lives} == {7: True, 8: None, 9: None}


def test_exiting_process_is_present_and_not_known_to_live() -> None:
    found = census(bookings=[booking("M", 7, name=None, missing="[No data]")])
    life = found.lives[0]
    assert found.present(life, found.looks[1]) is True
    assert found.alive(life, found.looks[1]) is None


def test_who_was_dead_stays_dead_where_nobody_looked_again() -> None:
    first = [process("L", 7, state="Z", threads=1), process("L", 8, state="Z", threads=3), process("L", 9)]
    found = census(first, [booking("M", 6)])
    assert [found.alive(life, found.looks[1]) for life in found.lives if life.pid > 6] == [False, None, None]
    later = census([process("M", 7, state="Z", threads=1)], [booking("L", 6)])
    assert later.alive(later.named("box", 7)[0], later.looks[0]) is None


def test_zombie_leader_lives_by_its_threads() -> None:
    found = census(
        [process("M", 7, state="Z", threads=19), process("M", 8, state="Z", threads=1), process("M", 9, state="Z")]
    )
    assert [found.alive(life, found.looks[1]) for life in found.lives] == [True, False, None]


def test_nvml_client_maps_nothing() -> None:
    found = census([process("M", 7), process("M", 8)], handles=[handle("M", 7, "fd"), handle("M", 8, "map")])
    seen = {life.pid: life.sightings["M"] for life in found.lives}
    assert seen[7].open
    assert not seen[7].mapped
    assert seen[8].mapped


def test_adopted_means_parent_one_and_no_group_of_its_own() -> None:
    adopted, daemon, child = census([process("M", 7, 1, pgid=5), process("M", 8, 1), process("M", 9, 8, pgid=8)]).lives
    assert was_adopted(adopted)
    assert not was_adopted(daemon)
    assert not was_adopted(child)


def test_first_process_of_a_container_does_not_adopt_its_own_children() -> None:
    child = census([process("M", 7, 1, pgid=1)]).lives[0]
    assert not was_adopted(child)


def test_observer_is_the_youngest_running_ps_and_its_ancestors() -> None:
    rows = [
        process("M", 1, 0, elapsed_s=900),
        process("M", 2, 0, kernel_thread=True, elapsed_s=900),
        process("M", 50, 1, elapsed_s=80),
        process("M", 60, 50, state="R", elapsed_s=0, user="root"),
        process("M", 40, 1, state="R", elapsed_s=0),
    ]
    found = census(rows, coverage=[table("M")])
    view = view_of(found.looks[1], rows, [table("M")])
    assert view.observers == {60, 50, 1}
    assert view.user == "root"
    assert view.own_namespace is False


def test_a_table_without_kernel_threads_is_of_another_namespace_and_one_without_pid_1_is_hidden() -> None:
    inside = [process("M", 1, 0, cmdline="/bin/bash"), process("M", 6, 1)]
    view = view_of(census(inside).looks[1], inside, [table("M")])
    assert view.own_namespace is True
    own = [process("M", 1520, 1)]
    assert view_of(census(own).looks[1], own, [table("M")]).hidden is True


def test_a_machines_table_without_kernel_threads_may_have_been_filtered() -> None:
    for first in ("/sbin/init splash", "/usr/lib/systemd/systemd --system", None):
        rows = [process("M", 1, 0, cmdline=first), process("M", 6, 1)]
        look = census(rows).looks[1]
        assert view_of(look, rows, [table("M")]).own_namespace is None
        assert view_of(look, rows, [table("M")]).limited
        assert view_of(look, rows, [table("M")], in_container=True).own_namespace is True


INSIDE = frozenset({"L", "M"})
"""Both looks were taken in a PID namespace other than the host's."""


def contained(first: str, later: str, *, age_s: int = 110) -> Census:
    rows = [
        process("L", 1, 0, elapsed_s=100, cmdline=first),
        process("L", 7, elapsed_s=90),
        process("M", 1, 0, elapsed_s=age_s, cmdline=later, seconds=10),
    ]
    return census(rows, coverage=[table("L"), table("M")], limited=INSIDE, inside=INSIDE)


def test_a_container_s_own_table_shows_the_death_of_one_of_its_processes() -> None:
    found = contained("serve --all", "serve --all")
    assert found.present(found.named("box", 7)[0], found.looks[1]) is False
    assert not found.sees_everybody(found.looks[1])


def test_another_container_s_table_does_not() -> None:
    for found in (contained("serve --all", "train"), contained("serve --all", "serve --all", age_s=40)):
        assert found.present(found.named("box", 7)[0], found.looks[1]) is None


def test_a_process_seen_from_outside_is_not_missed_inside() -> None:
    rows = [
        process("L", 1, 0, elapsed_s=9000, cmdline="/sbin/init"),
        process("L", 7, elapsed_s=90),
        process("M", 1, 0, elapsed_s=100, cmdline="serve", seconds=10),
    ]
    found = census(rows, coverage=[table("L"), table("M")], limited=frozenset({"M"}), inside=frozenset({"M"}))
    assert found.present(found.named("box", 7)[0], found.looks[1]) is None
