"""What ran and who died, from the prediction and from what was observed."""

from __future__ import annotations

import pytest

from gpudiag.shell.replay import Observed, Replay, replay
from gpudiag.shell.syntax import parse_line
from gpudiag.shell.world import Caller, Candidate, World

ROOT = Caller("root", 0)
NOTHING = Observed(None, None, None)
SERVER = Candidate(
    10, 1, 10, 10, 0, "root", "python", False, "python -m vllm.entrypoints.x", False, "S", 1.0, False
)  # fmt: skip
WORKER = Candidate(
    12, 10, 10, 10, 0, "root", "VLLM::Worker_TP", False, "VLLM::Worker_TP0", False, "S", 2.0, False
)  # fmt: skip
WORLD = World((SERVER, WORKER), True, {10: frozenset(), 12: frozenset({"/dev/nvidia0"})}, frozenset({12}))
SELF_MATCH = "pkill -9 -f vllm.entry 2>/dev/null; sleep 3; fuser -k /dev/nvidia0; sleep 5; echo END"


def run(text: str, observed: Observed = NOTHING, how: str = "shell", caller: Caller = ROOT, **more: str) -> Replay:
    line = parse_line(text, how=how, script_text=more.get("script"), user=caller.user)
    return replay(line, WORLD, caller, observed)


def ran(result: Replay) -> list[tuple[bool | None, bool]]:
    return [(one.ran, one.ran_proven) for one in result.steps]


def deaths(result: Replay) -> list[bool | None]:
    return [row.death_seen for row in result.carriers if row.step == 0]


def test_prediction_alone_is_not_proof() -> None:
    result = run(SELF_MATCH)
    assert ran(result) == [(True, False)] + 4 * [(False, False)]
    row = result.carriers[0]
    assert (row.matches, row.execs, row.signal_fatal, row.later_steps) == (True, False, True, (1, 2, 3, 4))
    assert row.death_seen is None


def test_of_a_stated_line_it_is_open_whether_its_shell_had_it() -> None:
    result = run(SELF_MATCH, how="stated")
    assert ran(result) == [(True, False)] + 4 * [(None, False)]
    assert result.carriers[0].matches is None
    assert (
        result.steps[2].ran_because
        == "step 1 (pkill) may have killed its shell, if that was given the line (ssh, bash -c)"
    )


def test_a_stated_line_that_does_not_find_itself_ran_to_its_end() -> None:
    result = run(SELF_MATCH.replace("vllm", "[v]llm"), how="stated")
    assert ran(result) == 5 * [(True, False)]


def test_a_stated_line_may_be_the_newest_match_itself() -> None:
    picked = run("pkill -9 -n -f vllm.entry; true", how="stated").steps[0].selection
    assert picked is not None
    assert [verdict.selected for verdict in picked.verdicts] == [None, None]


@pytest.mark.parametrize(
    ("observed", "sign"),
    [
        (Observed(-9, None, None), "exit code -9"),
        (Observed(137, None, None), "exit code 137"),
        (Observed(None, 0.013, None), "sleeps"),
        (Observed(None, None, "Killed\n"), "says Killed"),
        (Observed(None, None, ""), "lacks the text"),
        (Observed(None, None, None, True), "kernel trace"),
    ],
)
def test_signs_of_the_shells_death(observed: Observed, sign: str) -> None:
    result = run(SELF_MATCH, observed)
    assert ran(result) == [(True, True)] + 4 * [(False, True)]
    assert sign in (result.carriers[0].death_how or "")


@pytest.mark.parametrize(
    "observed",
    [
        Observed(0, 8.1, "END\n"),
        Observed(None, None, "x\nEND\n"),
        Observed(1, None, None),
        Observed(None, None, None, False),
    ],
)
def test_signs_that_the_shell_went_on_overrule_the_prediction(observed: Observed) -> None:
    result = run(SELF_MATCH, observed)
    assert deaths(result) == [False]
    assert [one.ran for one in result.steps] == 5 * [True]


def test_exit_code_255_of_ssh_is_the_death_of_the_remote_shell() -> None:
    result = run(f"ssh root@h '{SELF_MATCH}'", Observed(255, 0.3, ""), how="prompt")
    assert deaths(result) == [True]
    assert ran(result)[1:] == 4 * [(False, True)]


def test_ssh_that_never_got_there_ran_nothing() -> None:
    output = "ssh: connect to host h port 22: Connection refused\n"
    result = run(f"ssh root@h '{SELF_MATCH}'", Observed(255, 0.1, output), how="prompt")
    assert ran(result) == 5 * [(False, True)]


def test_exit_code_of_a_later_command_says_nothing_about_the_remote_shell() -> None:
    result = run(f"ssh root@h '{SELF_MATCH}'; true", Observed(0, None, None), how="prompt")
    assert deaths(result) == [None]
    probed = run(f"ssh root@h '{SELF_MATCH}'; echo rc=$?", Observed(0, None, "rc=255\n"), how="prompt")
    assert deaths(probed) == [True]


def test_a_prompt_is_not_matched_by_what_is_typed_at_it() -> None:
    result = run(SELF_MATCH, how="prompt")
    assert [one.ran for one in result.steps] == 5 * [True]
    named = run("pkill -9 bash; x", how="prompt")
    assert [one.ran for one in named.steps] == [True, None], "the shell at the prompt may be bash"


def test_script_goes_on_unless_its_own_line_matches() -> None:
    script = "pkill -9 -f vllm.entry\necho rc=$?\n"
    observed = Observed(0, 0.1, "rc=0\n")
    result = run("bash stop.sh", observed, script=script)
    assert ran(result) == [(True, True), (True, True)]
    assert result.steps[0].exit_code == 0
    assert [one.ran for one in run("bash stop-vllm.entry.sh", script=script).steps] == [True, False]


def test_sudo_dies_and_the_script_goes_on() -> None:
    result = run("bash stop.sh", script="sudo pkill -9 -f vllm.entry\nnext\n")
    rows = {row.carrier.kind: (row.matches, row.later_steps) for row in result.carriers}
    assert rows["sudo"] == (True, ())
    assert rows["script"] == (False, (1,))
    assert [one.ran for one in result.steps] == [True, True]


def test_a_user_cannot_kill_the_sudo_of_root() -> None:
    result = run("sudo sh -c 'x'; pkill -9 -f vllm.entry; y", caller=Caller("bob", None))
    assert [one.ran for one in result.steps] == [True, True, False]
    refused = [one.permitted for one in result.steps[1].selection.verdicts] if result.steps[1].selection else []
    assert refused == [False, False]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pkill -9 vllm && x", [True, False]),
        ("pkill -9 vllm || x", [True, True]),
        ("pkill -9 VLLM && x", [True, True]),
        ("pkill -9 VLLM || x; y", [True, False, True]),
        ("unknown-program && x", [True, None]),
        ("pkill -9 vllm && a && b || c", [True, False, False, True]),
        ("set -e; pkill -9 vllm; x", [True, True, False]),
        ("set -e; pkill -9 vllm || true; x", [True, True, True, True]),
        ("exit 1; x", [True, False]),
        ("exec pkill -9 VLLM; x", [True, False]),
        ("if a; then pkill VLLM; fi; x", [True, None, True]),
        ("pkill -9 vllm && bash -c 'a; b'; c", [True, False, False, True]),
    ],
)
def test_flow_of_control(text: str, expected: list[bool | None]) -> None:
    assert [one.ran for one in run(text, how="prompt").steps] == expected


def test_bash_survives_an_interrupt_and_other_shells_may_not() -> None:
    bash = replay(parse_line("", how="argv", argv=("bash", "-c", "pkill -2 -f vllm.e; x")), WORLD, ROOT, NOTHING)
    assert [one.ran for one in bash.steps] == [True, True]
    assert [one.ran for one in run("pkill -2 -f vllm.e; x").steps] == [True, None]


def test_newest_match_is_the_shell_itself() -> None:
    result = run("pkill -9 -n -f vllm.entry; x")
    selection = result.steps[0].selection
    assert selection is not None
    assert [one.selected for one in selection.verdicts] == [False, False]
    assert result.carriers[0].matches is True


def test_list_for_kill_may_name_the_shell() -> None:
    hit = run("kill -9 $(pgrep -f vllm.entry); x")
    assert hit.steps[0].list_from == "pgrep"
    assert [one.ran for one in hit.steps] == [True, False]
    spared = run("kill -9 $(cat server.pid); x")
    assert [one.ran for one in spared.steps] == [True, True]


def test_lookers_have_no_selection() -> None:
    result = run("nvidia-smi; fuser -v /dev/nvidia0; sleep 1; pgrep x")
    assert [one.tool for one in result.steps] == 4 * [None]
    assert not result.carriers


def test_who_is_seen_inside_a_container_is_not_recorded() -> None:
    result = run("docker exec c pkill -9 -f vllm.entry", how="prompt")
    selection = result.steps[0].selection
    assert selection is not None
    assert [one.selected for one in selection.verdicts] == [None, None]


def test_the_callers_name_on_another_host_is_not_known() -> None:
    result = run("ssh h 'kill -9 10'", how="prompt", caller=Caller("bob", None))
    selection = result.steps[0].selection
    assert selection is not None
    assert [one.permitted for one in selection.verdicts] == [None, None]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dash -c 'kill -9 -- -7; true'", "Illegal number: --"),
        ("dash -c 'kill -KILL -- -7; true'", "Illegal number: --"),
        ("dash -c 'kill -s KILL -- -7; true'", None),
        ("dash -c 'kill -9 -7; true'", None),
        ("dash -c 'sudo kill -9 -- -7; true'", None),
        ("bash -c 'kill -9 -- -7; true'", None),
    ],
)
def test_dash_takes_no_dashes_behind_a_signal(text: str, error: str | None) -> None:
    selection = run(text, how="prompt").steps[0].selection
    assert selection is not None
    assert (selection.error, selection.exit_code) == (error, 2 if error else selection.exit_code)
