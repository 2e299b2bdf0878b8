"""Logs of sudo and of the audit trail, and how all sources become one list."""

from __future__ import annotations

import json

import pytest

from gpudiag.collect import audit, sudo_log
from gpudiag.collect.issued import NEWEST, Issued, merged

NOW = 1796068000.0
HEAD = "2026-11-30T19:00:06+0000 node sudo[77]: "


def sudo(command: str, head: str = HEAD, fields: str = "TTY=pts/0 ; PWD=/home/a ; USER=root ; ") -> list[Issued]:
    return list(sudo_log.commands([f"{head}   alice : {fields}COMMAND={command}"], NOW))


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("/usr/bin/pkill -9 -f vllm", ("/usr/bin/pkill", "-9", "-f", "vllm")),
        ("/usr/bin/pkill -9 -f vllm serve m", ("/usr/bin/pkill", "-9", "-f", "vllm serve m")),
        ("/usr/bin/pkill -u root -f vllm\\ serve", ("/usr/bin/pkill", "-u", "root", "-f", "vllm serve")),
        ("/bin/bash -c pkill -f x; sleep 3", ("/bin/bash", "-c", "pkill -f x; sleep 3")),
        ("/bin/bash -c pkill\\ -f\\ x\\;\\ sleep\\ 3", ("/bin/bash", "-c", "pkill -f x; sleep 3")),
        ("/usr/bin/kill -9 7 8", ("/usr/bin/kill", "-9", "7", "8")),
        ("/bin/sh -c kill 7#012kill 8", ("/bin/sh", "-c", "kill 7\nkill 8")),
    ],
)
def test_the_words_that_sudo_ran(command: str, argv: tuple[str, ...]) -> None:
    (found,) = sudo(command)
    assert found.argv == argv
    assert (found.source, found.user, found.time_s, found.error_s) == ("sudo_log", "root", 1796065206.0, 1.0)
    assert "cmd" not in found.record()


@pytest.mark.parametrize("fields", ["command not allowed ; TTY=x ; USER=root ; ", "3 incorrect password attempts ; "])
def test_what_sudo_refused_did_not_run(fields: str) -> None:
    assert sudo("/usr/bin/pkill x", fields=fields) == []


def test_other_commands_and_lines_stay_on_the_machine() -> None:
    assert sudo("/usr/bin/cat /etc/shadow") == []
    assert list(sudo_log.commands(["", "x", HEAD + "pam_unix(sudo:session): session opened"], NOW)) == []


def test_a_file_of_its_own_has_no_host_and_wraps_its_lines() -> None:
    """As sudo 1.9 wrote it to the file that ``Defaults logfile`` named."""
    lines = [
        "Dec  1 02:27:53 : root : PWD=/tmp ; USER=root ; COMMAND=/usr/bin/kill -9 85",
        "Dec  1 02:28:10 : alice : TTY=pts/2 ; PWD=/home/alice ; USER=root ;",
        "    COMMAND=/usr/bin/pkill -9 -f vllm.entrypoints.openai.api_server",
        "Dec  1 02:29:00 : alice : user NOT in sudoers ; PWD=/tmp ; USER=root ; COMMAND=/usr/bin/kill -9 1",
    ]
    found = list(sudo_log.commands(lines, NOW))
    assert [item.argv for item in found] == [
        ("/usr/bin/kill", "-9", "85"),
        ("/usr/bin/pkill", "-9", "-f", "vllm.entrypoints.openai.api_server"),
    ]
    assert [item.user for item in found] == ["root", "root"]
    assert all(item.time_s is not None for item in found)


def test_an_old_stamp_gets_the_year_that_is_not_in_the_future() -> None:
    (found,) = sudo("/usr/bin/pkill x", head="Dec 30 19:00:06 node sudo: ")
    assert found.time_s is not None
    assert found.time_s < NOW
    (broken,) = sudo("/usr/bin/pkill x", head="Xxx 30 19:00:06 node sudo: ")
    assert (broken.time_s, broken.error_s) == (None, None)


def event(number: int, *lines: str) -> list[str]:
    return [line.format(f"audit(1796065206.250:{number}):") for line in lines]


def test_the_audit_trail_has_the_exact_words() -> None:
    script = b"pkill x; sleep 3".hex().upper()
    found = list(
        audit.commands(
            [
                *event(1, "type=SYSCALL msg={} arch=c000003e success=yes exit=0 uid=1000 euid=0 comm=\"pkill\"",
                       'type=EXECVE msg={} argc=4 a0="pkill" a1="-9" a2="-f" a3="vllm"'),
                *event(2, "type=SYSCALL msg={} success=no euid=0", 'type=EXECVE msg={} argc=2 a0="pkill" a1="x"'),
                *event(3, f'type=EXECVE msg={{}} argc=3 a0="bash" a1="-c" a2={script}'),
                *event(4, 'type=EXECVE msg={} argc=3 a0="kill" a2="7"'),
                *event(5, 'type=EXECVE msg={} argc=3 a0="sudo" a1="pkill" a2="x"'),
                *event(6, 'type=EXECVE msg={} argc=1 a0="ls"'),
                "----", "garbage",
            ],
            {0: "root"},
        )
    )  # fmt: skip
    assert [(item.argv, item.user, item.time_s) for item in found] == [
        (("pkill", "-9", "-f", "vllm"), "root", 1796065206.25),
        (("bash", "-c", "pkill x; sleep 3"), None, 1796065206.25),
    ]


def test_a_line_and_what_sudo_says_of_it_are_one() -> None:
    typed = [
        Issued("sudo pkill -9 -f 'vllm serve'", "history", None, None, "alice"),
        Issued("sudo -u root pkill -9 -f 'vllm serve'", "history", None, None, "alice"),
    ]
    found = merged([*typed, *sudo("/usr/bin/pkill -9 -f vllm serve")], None)
    assert found == [
        typed[0],
        Issued("sudo -u root pkill -9 -f 'vllm serve'", "sudo_log", 1796065206.0, 1.0, "alice"),
    ]


def test_times_that_differ_are_two_commands() -> None:
    typed = Issued("sudo pkill x", "history", 1796065300.0, 1.0, "alice")
    assert [item.source for item in merged([typed, *sudo("/usr/bin/pkill x")], None)] == ["sudo_log", "history"]


def test_sudo_and_audit_about_one_command() -> None:
    both = [Issued("pkill x", "audit", 1796065206.2, 0.01, "root", ("pkill", "x")), *sudo("/usr/bin/pkill x")]
    assert [item.source for item in merged(both, None)] == ["audit"]


def test_what_was_before_the_start_of_the_machine_is_left_out() -> None:
    found = [Issued(f"pkill {n}", "history", float(n), 1.0) for n in range(10)] + [Issued("pkill x", "history")]
    assert [item.text for item in merged(found, 8.0)] == ["pkill x", "pkill 8", "pkill 9"]


def test_the_newest_are_kept_and_a_stated_one_always() -> None:
    stated = Issued("pkill stated", "stated")
    found = merged([stated, *(Issued(f"pkill {n}", "history", float(n), 1.0) for n in range(NEWEST + 50))], None)
    assert len(found) == NEWEST + 1
    assert (found[0].text, found[-1]) == ("pkill 50", stated)


def test_a_record_is_json_with_a_zone() -> None:
    record = json.loads(json.dumps(Issued("kill 7", "history", 1796065206.0, 1.0).record()))
    assert (record["t0"], record["time_error_s"]) == ("2026-11-30T19:00:06+00:00", 1.0)
    assert Issued("kill 7", "history", 1e18, 1.0).record()["t0"] is None
