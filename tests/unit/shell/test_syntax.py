"""Text to steps and carriers."""

from __future__ import annotations

import pytest

from gpudiag.shell.syntax import Line, command_names, parse_line, simple_commands


def prompt(text: str, script: str | None = None) -> Line:
    return parse_line(text, how="prompt", script_text=script)


def argvs(line: Line) -> list[list[str | None]]:
    return [[word.text for word in step.words] for step in line.steps]


def kinds(line: Line) -> list[str]:
    return [carrier.kind for carrier in line.carriers]


def test_ssh_line_has_a_client_here_and_a_login_shell_there() -> None:
    text = 'pkill -9 -f "vllm.entrypoints" 2>/dev/null; sleep 3; fuser -k /dev/nvidia* 2>/dev/null'
    line = prompt(f"ssh -o StrictHostKeyChecking=no -p 22 root@gpu-node '{text}'")
    assert kinds(line) == ["prompt", "ssh client", "ssh"]
    client, login = line.carriers[1:]
    assert client.cmdline == f"ssh -o StrictHostKeyChecking=no -p 22 root@gpu-node {text}"
    assert client.host is None
    assert (login.cmdline, login.host, login.user, login.shell) == (f"bash -c {text}", "gpu-node", "root", None)
    assert [step.connector for step in line.steps] == [None, ";", ";"]
    assert {(step.carrier, step.host, step.user) for step in line.steps} == {(2, "gpu-node", "root")}
    first, _, last = line.steps
    assert first.redirected
    assert first.hides_errors
    assert not first.tail
    assert last.tail
    assert last.words[-1].glob


def test_the_same_machine_by_name_is_no_other_host() -> None:
    line = parse_line("ssh localhost 'pkill x'; ssh box 'pkill y'", how="prompt", host="box")
    assert [step.host for step in line.steps] == [None, None]


def test_argument_vector_has_no_shell_unless_it_names_one() -> None:
    direct = parse_line("", how="argv", argv=("pkill", "-9", "-f", "a b*"))
    assert kinds(direct) == ["none"]
    assert argvs(direct) == [["pkill", "-9", "-f", "a b*"]]
    assert not direct.steps[0].words[3].glob
    shell = parse_line("", how="argv", argv=("bash", "-c", "pkill x; y"))
    assert [(one.kind, one.shell, one.cmdline) for one in shell.carriers] == [("bash -c", "bash", "bash -c pkill x; y")]


def test_shell_text_is_in_the_command_line_of_some_shell() -> None:
    line = parse_line("pkill a\nnext\t1", how="shell")
    assert [(one.kind, one.shell, one.cmdline) for one in line.carriers] == [
        ("unknown -c", None, "sh -c pkill a next?1")
    ]


def test_script_text_stays_out_of_the_command_line() -> None:
    line = prompt("bash stop.sh a; echo done", "kill -9 788\npkill -f $1\n")
    assert [(one.kind, one.cmdline) for one in line.carriers] == [("prompt", None), ("script", "bash stop.sh a")]
    assert argvs(line) == [["kill", "-9", "788"], ["pkill", "-f", "a"], ["echo", "done"]]
    assert [step.carrier for step in line.steps] == [1, 1, 0]


def test_interpreter_line_names_the_shell_of_an_executed_script() -> None:
    line = prompt("./stop.sh", "#!/usr/bin/env bash\npkill x")
    assert (line.carriers[1].shell, line.carriers[1].cmdline) == ("bash", "bash ./stop.sh")


def test_a_script_without_its_text_is_one_step() -> None:
    assert argvs(prompt("bash stop.sh")) == [["bash", "stop.sh"]]


@pytest.mark.parametrize(
    ("text", "wrappers", "words", "user"),
    [
        ("sudo -u bob pkill x", ("sudo",), ["pkill", "x"], "bob"),
        ("sudo -n --user=bob pkill x", ("sudo",), ["pkill", "x"], "bob"),
        ("sudo A=1 nohup pkill x", ("sudo", "nohup"), ["pkill", "x"], "root"),
        ("timeout -k 5 --signal TERM 10 pkill x", ("timeout",), ["pkill", "x"], None),
        ("env -u A B=2 setsid pkill x", ("env", "setsid"), ["pkill", "x"], None),
        ("nice -n 5 /usr/bin/pkill x", ("nice",), ["/usr/bin/pkill", "x"], None),
        ("command pkill x", ("command",), ["pkill", "x"], None),
        ("pkill x", (), ["pkill", "x"], None),
    ],
)
def test_wrappers_come_off(text: str, wrappers: tuple[str, ...], words: list[str], user: str | None) -> None:
    (step,) = prompt(text).steps
    assert (step.wrappers, [word.text for word in step.words], step.user) == (wrappers, words, user)


def test_processes_that_stay_above_the_tool_are_carriers() -> None:
    line = prompt("sudo timeout 9 pkill x; y")
    assert [(one.kind, one.cmdline, one.parent) for one in line.carriers] == [
        ("prompt", None, None),
        ("sudo", "sudo timeout 9 pkill x", 0),
        ("timeout", "timeout 9 pkill x", 1),
    ]
    assert [(step.carrier, step.started_by) for step in line.steps] == [(0, 2), (0, 0)]


@pytest.mark.parametrize(
    ("text", "expected", "cmdline"),
    [
        ("bash -lc 'pkill x; y'", ["bash -c"], "bash -lc pkill x; y"),
        ("sh -c 'pkill x; y'", ["sh -c"], "sh -c pkill x; y"),
        ("sudo sh -c 'pkill x; y'", ["sudo", "sh -c"], "sh -c pkill x; y"),
        ("su -s /bin/bash bob -c 'pkill x; y'", ["client", "su -c"], "bash -c pkill x; y"),
        ("su - bob -c 'pkill x; y'", ["client", "su -c"], "-bash -c pkill x; y"),
        ("runuser -u bob -- bash -c 'pkill x; y'", ["client", "bash -c"], "bash -c pkill x; y"),
        ("docker exec -it -u bob c1 bash -c 'pkill x; y'", ["client", "bash -c"], "bash -c pkill x; y"),
        ("kubectl -n ns exec pod -c main -- sh -c 'pkill x; y'", ["client", "sh -c"], "sh -c pkill x; y"),
        ("sudo -i pkill x", ["sudo", "bash -c"], "bash -c pkill x"),
        ("bash <<< 'pkill x; y'", ["script"], "bash"),
        ("bash -s <<'EOF'\npkill x\ny\nEOF", ["script"], "bash -s"),
        ("ssh h <<'EOF'\npkill x\ny\nEOF", ["ssh client", "script"], "-bash"),
    ],
)
def test_nested_shells(text: str, expected: list[str], cmdline: str) -> None:
    line = prompt(text)
    assert kinds(line)[1:] == expected
    assert line.carriers[-1].cmdline == cmdline
    assert argvs(line)[0] == ["pkill", "x"]
    assert line.steps[0].carrier == line.carriers[-1].index


def test_ssh_joins_its_arguments_before_the_remote_shell_reads_them() -> None:
    line = prompt("ssh h sudo bash -c 'pkill a; pkill b'")
    assert argvs(line) == [["pkill"], ["pkill", "b"]], "the quotes are gone when the remote shell sees it"
    assert [line.carriers[step.carrier].kind for step in line.steps] == ["bash -c", "ssh"]


def test_container_steps_name_their_container() -> None:
    line = prompt("docker exec c1 pkill x; podman exec c2 bash -c 'pkill y'; pkill z")
    assert [step.container for step in line.steps] == ["c1", "c2", None]


def test_variables_are_followed_as_far_as_they_are_known() -> None:
    line = prompt('P=vllm; Q=\'1 2\'; pkill -f "$P.entrypoints"; kill $Q; kill "$Q"; kill $R; kill ${P}x')
    assert argvs(line) == [
        ["pkill", "-f", "vllm.entrypoints"],
        ["kill", "1", "2"],
        ["kill", "1 2"],
        ["kill", None],
        ["kill", "vllmx"],
    ]


def test_a_variable_set_in_a_branch_is_not_known_afterwards() -> None:
    line = prompt("P=a; if x; then P=b; fi; pkill $P")
    assert argvs(line)[-1] == ["pkill", None]


def test_substitution_says_which_shell_expands_it() -> None:
    inner = prompt("ssh h 'kill $(nvidia-smi --query-compute-apps=pid)'").steps[0]
    outer = prompt('ssh h "kill $(nvidia-smi --query-compute-apps=pid)"').steps[0]
    assert [one.expands_on for one in inner.words[-1].substitutions] == ["here"]
    assert [one.expands_on for one in outer.words[-1].substitutions] == ["outer"]
    assert outer.pid_source == inner.pid_source == "nvidia-smi"
    assert inner.words[-1].substitutions[0].argv == ("nvidia-smi", "--query-compute-apps=pid")


def test_what_an_outer_shell_expands_is_a_hole_in_the_command_line() -> None:
    line = prompt('bash -c "pkill $X; y"')
    assert (line.carriers[1].cmdline, line.carriers[1].cmdline_holes) == ("bash -c pkill \ufffd; y", True)


def test_pipeline_into_xargs_is_one_step() -> None:
    line = prompt("ps -ef | grep 'train.py' | grep -v grep | awk '{print $2}' | xargs -r sudo kill -9 2>/dev/null; e")
    kill, _ = line.steps
    assert ([word.text for word in kill.words], kill.wrappers, kill.pid_source) == (["kill", "-9"], ("sudo",), "ps")
    assert kill.fed_by is not None
    assert [words[0].text for words in kill.fed_by.pipeline] == ["ps", "grep", "grep", "awk"]
    assert kill.text.endswith("kill -9 2>/dev/null")
    assert kill.hides_errors


def test_xargs_placeholder_is_no_argument() -> None:
    (step,) = prompt("pgrep x | xargs -I{} kill -9 {}").steps
    assert [word.text for word in step.words] == ["kill", "-9"]


@pytest.mark.parametrize(
    "text",
    [
        "for i in $(lsof -t /dev/nvidia*); do kill -9 $i; done",
        "lsof -t /dev/nvidia* | while read p; do kill -9 $p; done",
        "while read p; do kill -9 $p; done < <(lsof -t /dev/nvidia*)",
        "PIDS=$(lsof -t /dev/nvidia*); kill -9 $PIDS",
        "kill -9 `lsof -t /dev/nvidia*`",
    ],
)
def test_list_of_pids_is_traced_to_its_source(text: str) -> None:
    step = next(step for step in prompt(text).steps if step.words[0].text == "kill")
    assert step.pid_source == "lsof"
    assert [word.text for word in step.words] == ["kill", "-9", None]


def test_loop_over_known_words_is_unrolled() -> None:
    assert argvs(prompt("for p in vllm sglang; do pkill -f $p; done")) == [
        ["pkill", "-f", "vllm"],
        ["pkill", "-f", "sglang"],
    ]


def test_bodies_of_conditions_may_not_run() -> None:
    line = prompt("if pgrep x; then pkill x; else y; fi; z")
    assert [(step.words[0].text, [(g.kind, g.wanted) for g in step.groups]) for step in line.steps] == [
        ("pgrep", [("list", True), ("condition", True)]),
        ("pkill", [("list", True), ("body", True)]),
        ("y", [("list", True), ("body", False)]),
        ("z", []),
    ]
    assert not any(step.branch for step in line.steps)


def test_functions_are_entered_where_they_are_called() -> None:
    line = prompt("stop() { pkill -f $1; }; a; stop vllm; b")
    assert argvs(line) == [["a"], ["pkill", "-f", "vllm"], ["b"]]


def test_connectors_follow_the_text() -> None:
    line = prompt("a && b || c; d & e | f\ng")
    assert [step.connector for step in line.steps] == [None, "&&", "||", ";", "&", "|", ";"]


@pytest.mark.parametrize(
    ("text", "tails"),
    [
        ("a; b", [False, True]),
        ("a | b", [False, False]),
        ("a; (b)", [False, False]),
        ("! a", [False]),
        ("a &", [False]),
        ("a; P=1", [False]),
        ("a && b", [False, True]),
    ],
)
def test_only_the_last_plain_command_is_where_a_shell_replaces_itself(text: str, tails: list[bool]) -> None:
    assert [step.tail for step in prompt(text).steps] == tails


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x 'a b'\"c\"", "a bc"),
        ("x a\\ b", "a b"),
        ('x "a  \\" \\n b"', 'a  " \\n b'),
        ("x $'a\\tb\\x41'", "a\tbA"),
        ('x "$(y)"', None),
        ("x ~/a", None),
        ("x $((1+2))", None),
    ],
)
def test_quote_removal(text: str, value: str | None) -> None:
    assert prompt(text).steps[0].words[1].text == value


def test_braces_become_words() -> None:
    assert argvs(prompt("fuser -k /dev/nvidia{0..2} a{b,c}d '{e,f}'")) == [
        ["fuser", "-k", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "abd", "acd", "{e,f}"]
    ]


def test_text_that_breaks_off_is_read_and_reported() -> None:
    line = prompt('pkill -9 -f "vllm.entry')
    assert argvs(line) == [["pkill", "-9", "-f", "vllm.entry"]]
    assert line.not_understood


def test_too_long_a_text_is_not_parsed() -> None:
    line = prompt("pkill x; " + "a" * 70_000)
    assert not line.steps
    assert "longer than" in line.not_understood[0]


def test_names_and_commands_are_found_at_every_depth() -> None:
    text = "ssh h 'sudo kill -9 $(nvidia-smi --query-compute-apps=pid | sort)'; su -c 'fuser -k /dev/nvidia0'"
    assert command_names(text) == ("ssh", "sudo", "su", "bash", "kill", "nvidia-smi", "sort", "fuser")
    assert ["nvidia-smi", "--query-compute-apps=pid"] in simple_commands(text)
    assert ["fuser", "-k", "/dev/nvidia0"] in simple_commands(text)


DEEP = 160
NESTED = {
    "substitutions": "kill " + "$(" * DEEP + "echo 1" + ")" * DEEP,
    "quoted substitutions": "kill " + '"$(echo ' * DEEP + "1" + ')"' * DEEP,
    "sub-shells": "( " * DEEP + "pkill x" + " )" * DEEP,
    "conditions": "if true; then " * DEEP + "pkill x" + "; fi" * DEEP,
    "loops": "for i in a b; do " * DEEP + "pkill x" + "; done" * DEEP,
    "shells": "bash -c '" + "eval " * DEEP + "pkill x'",
    "clients": "ssh h " * DEEP + "pkill x",
    "containers": "docker exec c " * DEEP + "pkill x",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=list(NESTED))
def test_what_is_nested_too_deeply_is_said_and_the_rest_is_read(text: str) -> None:
    line = prompt(f"pkill before; {text}\npkill -9 after")
    assert any("nested too deeply" in note for note in line.not_understood)
    assert argvs(line)[0] == ["pkill", "before"]
    unknown = line.steps[1:-1] if text != NESTED["loops"] else line.steps[1:]
    assert unknown
    assert all(None in [word.text for word in step.words] or step.words[0].text != "pkill" for step in unknown)
    if text != NESTED["loops"]:  # two words in two words … are more commands than are read
        assert argvs(line)[-1] == ["pkill", "-9", "after"]


def test_what_a_pipeline_of_hundreds_feeds_is_unknown() -> None:
    line = prompt("cat a | " * 200 + "xargs kill -9; pkill after")
    assert any("pipeline of more than" in note for note in line.not_understood)
    assert [step.words[0].text for step in line.steps[-2:]] == ["kill", "pkill"]
    assert line.steps[-2].fed_by is not None
    assert line.steps[-2].fed_by.pipeline == ()
