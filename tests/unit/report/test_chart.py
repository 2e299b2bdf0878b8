"""Geometry of the timeline."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpudiag.report import chart
from gpudiag.report.axis import MARGIN, WIDTH
from gpudiag.report.contract import Event, Report, Sample
from gpudiag.report.view import View
from tests.unit.report import sample

START = datetime(2026, 11, 30, 19, 40, tzinfo=UTC)


def _report(seconds: list[float], values: list[float], **update: object) -> Report:
    samples = tuple(
        Sample(gpu=sample.GPU, time=(START + timedelta(seconds=at)).isoformat(), used_mib=used)
        for at, used in zip(seconds, values, strict=True)
    )
    return sample.selfmatch().model_copy(
        update={"samples": samples, "actions": (), "events": (), "looks": (), **update}
    )


def _chart(report: Report) -> chart.Chart:
    built = chart.build(View(report))
    assert built is not None
    return built


def test_no_times_no_chart() -> None:
    assert chart.build(View(sample.ghost_workers())) is None
    assert chart.build(View(sample.empty())) is None


def test_one_sample_stands_in_the_middle() -> None:
    built = _chart(_report([0], [100]))
    assert [point.x for point in built.lanes[0].points] == [WIDTH / 2]
    assert built.lanes[0].stretches == ()
    assert len(built.ticks) == 1
    assert "the only measurement" in built.lanes[0].words


def test_points_lie_in_the_frame_and_more_memory_is_higher() -> None:
    points = _chart(_report([0, 1, 2], [0, 143771, 70000])).lanes[0].points
    assert [point.x for point in points] == [WIDTH * MARGIN, WIDTH / 2, WIDTH * (1 - MARGIN)]
    assert (points[0].y, points[1].y) == (chart.HEIGHT, 0)
    assert 0 < points[2].y < chart.HEIGHT


def test_a_small_share_gets_a_scale_of_its_own() -> None:
    lane = _chart(_report([0, 1], [0, 5600])).lanes[0]
    assert lane.top == "7,000 MiB"
    assert lane.points[1].y == pytest.approx(chart.HEIGHT * (1 - chart.HEADROOM))


def test_two_looks_are_joined_by_a_guess() -> None:
    assert [part.measured for part in _chart(_report([0, 4], [9, 9])).lanes[0].stretches] == [False]


def test_a_gap_in_a_series_is_a_guess() -> None:
    stretches = _chart(_report([0, 1, 2, 3, 30, 31], [9, 9, 9, 9, 1, 1])).lanes[0].stretches
    assert [(len(part.points), part.measured) for part in stretches] == [(4, True), (2, False), (2, True)]


def test_thinning_keeps_the_extremes() -> None:
    values = [50000.0] * 20000
    values[7777], values[12345] = 143771.0, 0.0
    lane = _chart(_report(list(range(20000)), values)).lanes[0]
    assert len(lane.points) <= chart.MAX_POINTS
    assert {0.0, chart.HEIGHT} <= {point.y for point in lane.points}


def test_samples_out_of_order_are_sorted() -> None:
    points = _chart(_report([2, 0, 1], [3, 1, 2])).lanes[0].points
    assert [point.x for point in points] == sorted(point.x for point in points)


def test_an_action_before_the_samples_widens_the_axis() -> None:
    report = _report([10, 20], [9, 9], actions=sample.selfmatch().actions)
    built = _chart(report)
    assert [mark.label for mark in built.actions] == ["A1: hit 1, missed 5"]
    assert all(0 <= mark.x <= WIDTH for mark in built.actions)


def test_events_outside_the_axis_are_not_drawn() -> None:
    events = (
        Event(time="2026-11-30T10:00:00Z", kind="log", text="hours before"),
        Event(time="2026-11-30T19:40:01Z", kind="log", text="in between"),
    )
    assert [(lane.name, len(lane.marks)) for lane in _chart(_report([0, 2], [9, 9], events=events)).events] == [
        ("server log", 1)
    ]


def test_labels_do_not_overlap() -> None:
    action = sample.selfmatch().actions[0]
    actions = tuple(action.model_copy(update={"id": f"A{n}", "time": f"2026-11-30T19:40:00.{n}Z"}) for n in range(1, 6))
    built = _chart(_report([0, 60], [9, 9], actions=actions))
    assert [mark.label for mark in built.actions] == ["A1", "", "", "", ""]


def test_an_event_that_may_be_hours_off_is_not_drawn() -> None:
    time = (START + timedelta(seconds=1)).isoformat()
    events = tuple(Event(kind="log", text="x", time=time, time_error_s=error) for error in (None, 1.0, 50_400.0))
    assert [len(lane.marks) for lane in _chart(_report([0, 2], [9, 9], events=events)).events] == [2]


def test_logs_and_the_trace_have_lines_of_their_own() -> None:
    time = (START + timedelta(seconds=1)).isoformat()
    events = tuple(Event(kind=kind, text="x", time=time) for kind in ("log", "kernel", "signal", "exit"))
    lanes = _chart(_report([0, 2], [9, 9], events=events)).events
    assert [(lane.name, len(lane.marks)) for lane in lanes] == [
        ("server log", 1),
        ("kernel log", 1),
        ("kernel trace", 2),
    ]


def test_the_newest_of_many_commands_are_drawn() -> None:
    action = sample.selfmatch().actions[0]
    times = [(START + timedelta(seconds=n)).isoformat() for n in range(500)]
    actions = tuple(action.model_copy(update={"id": f"A{n}", "time": time}) for n, time in enumerate(times))
    marks = _chart(_report([0, 500], [9, 9], actions=actions)).actions
    assert len(marks) == chart.MAX_ACTIONS
    assert marks[0].label == f"A{500 - chart.MAX_ACTIONS}"


def test_a_short_axis_tells_tenths_of_a_second() -> None:
    assert [tick.label for tick in _chart(_report([0, 0.4], [9, 9])).ticks] == ["19:40:00.0", "19:40:00.4"]
    assert _chart(_report([0, 60], [9, 9])).ticks[0].label == "19:40:00"


def test_process_lines_are_bounded_and_the_rest_is_counted() -> None:
    base = sample.crowded(gpus=2, workers=60)
    built = _chart(base)
    assert len(built.lifelines) == chart.MAX_LINES
    assert built.lifelines_left_out == len(base.processes) - chart.MAX_LINES > 0


def test_hours_of_samples_do_not_squeeze_the_commands() -> None:
    action = sample.selfmatch().actions[0].model_copy(update={"time": (START + timedelta(hours=4)).isoformat()})
    seconds = [*range(0, 4 * 3600 + 60, 5)]
    built = _chart(_report(list(map(float, seconds)), [9.0] * len(seconds), actions=(action,)))
    assert built.overview is not None
    assert [tick.label for tick in built.overview.ticks][::2] == ["19:40:00", "23:40:55"]
    assert [tick.label for tick in built.ticks] == ["23:39:45", "23:40:20", "23:40:55"]
    assert 0.15 * WIDTH < built.actions[0].x < 0.35 * WIDTH
    assert built.overview.actions[0].x > 0.95 * WIDTH
    assert len(built.lanes[0].points) == 15


def test_a_command_whose_time_may_be_hours_off_is_not_drawn() -> None:
    action = sample.selfmatch().actions[0].model_copy(update={"time_error_s": 50_400.0})
    assert _chart(_report([0, 2], [9, 9], actions=(action,))).actions == ()


def test_a_line_that_never_moves_says_its_value_once() -> None:
    assert _chart(_report([0, 1, 2], [5600.1, 5600.2, 5600])).lanes[0].words == (
        "5,600 MiB in all 3 measurements from 19:40:00 to 19:40:02 UTC."
    )
