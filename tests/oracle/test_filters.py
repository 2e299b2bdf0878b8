"""The filters before a kill, read here, against the real awk, sed, grep, cut, tr, sort, uniq, head, tail and xargs."""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess

import pytest

from gpudiag.shell.text.pipeline import filtered
from tests.oracle.arena import SCALE, SEED, need

pytestmark = pytest.mark.oracle

TABLE = """\
Mon Dec  1 04:32:30 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.159.04             Driver Version: 580.159.04     CUDA Version: 13.0     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA H200                    On  |   00000000:18:00.0 Off |                    0 |
| N/A   32C    P0             76W /  700W |   35213MiB / 143771MiB |      0%      Default |
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|=========================================================================================|
|    0   N/A  N/A             887      C   VLLM::Worker_TP0                      17600MiB |
|    1   N/A  N/A            1234    C+G   /usr/bin/python3                        518MiB |
|    0     0    1             888      G   /usr/lib/xorg/Xorg                        4MiB |
+-----------------------------------------------------------------------------------------+
"""
PS = """\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root           1  0.0  0.0   2576  1536 ?        Ss   04:13   0:0 /sbin/init
bob          885 99.9  1.2 123456 65432 pts/0    Sl+  04:14  1:02 python -m vllm.entrypoints.openai.api_server --port 80
bob          887  0.5 12.0  99999 88888 ?        R    04:15   0:30 VLLM::Worker_TP0
alice       1234  0.0  0.0      0     0 ?        Z    Nov30   0:0 [python] <defunct>
"""
NUMBERS = "12\n7\n\n7\n100\n12\n12\n"
TEXTS = (TABLE, PS, NUMBERS, "a:b,c\n \n\tx y  z \n", "")
PIPELINES = [
    "grep python | awk '{print $5}'", "awk '/ C /{print $5}'", "awk '$6==\"C\"{print $5}'", "awk '{print $3}'",
    "grep ' C ' | awk '{ print $5 }'", "sed -n 's/.*N\\/A  *\\([0-9][0-9]*\\).*/\\1/p'", "tail -n +11 | head -3",
    "grep -oP '\\|\\s+\\d+\\s+N/A\\s+N/A\\s+\\K\\d+'", "grep -oE '[0-9]+ +C' | cut -d' ' -f1",
    "awk 'NR>10 {print $5}'", "awk 'NR>2{print $2}'", "grep VLLM | tr -s ' ' | cut -d' ' -f6",
    "sed -n '11,$p' | awk '{print $5}' | sort -u", "sed -e '1,/=====/d' -e '/+--/d' | awk '{print $5}'",
    "awk '/Processes/,0{print $5}'", "grep -A20 Processes", "awk '$NF==\"|\" && $5 ~ /^[0-9]+$/ {print $5}'",
    "awk '{print $(NF-3)}'", "awk -F'|' '{print $2}'", "grep -c MiB", "awk -F '[ |]+' '{print $4}'",
    "awk '{ if ($6 == \"C\") print $5 }'", "sed '1d;$d'", "sed -n '2p'", "sed 5q", "sort -n | uniq -c", "sort -u",
    "sort | uniq -d", "uniq", "head -n -1", "tail -1", "tail -n 2", "head -1", "tac", "tr -d ' '", "tr '\\n' ' '",
    "tr -cd '0-9\\n'", "tr a-z A-Z", "tr -s ' ' '\\n'", "tr ':,' '  '", "tr -s '[:space:]'", "cut -c1-9",
    "cut -c 14-", "cut -d: -f2", "cut -d: -f2 -s", "cut -d' ' -f1,3-", "paste -sd' '", "paste -s -d ,",
    "grep -v grep | grep -i PYTHON | awk '{print $2}' | xargs", "xargs -n1", "xargs -n 2 echo", "wc -l", "cat",
    "cat -", "awk '{print $2, $1}'", "awk '{print $2 \":\" $1}'", "awk '{print($2)}'", "awk '!seen[$2]++'",
    "awk 'END{print NR}'", "awk '$2 > 800'", "awk '$2 == 885 || /Worker/ {print $2}'",
    "awk '$11 ~ /VLLM/ {print $2}'", "awk 'NF'", "awk 1", "awk '/python/ && !/grep/ {print $2}'", "awk '!/root/'",
    "awk 'BEGIN{FS=\":\"} {print $1}'", "awk -v p=887 '$2==p'", "awk '{gsub(/[^0-9]/,\"\",$5); print $5}'",
    "awk '{sub(\"MiB\",\"\",$8); print $8+0}'", "awk '{printf \"%s \", $2}'", "awk '{printf \"%s\\n\", $2}'",
    "awk '{print NR\": \"$0}'", "awk 'NR==2{print $2; exit}'", "awk '{print $0}'",
    "awk '$8 != \"Z\" {print $2; next} {print \"zombie\"}'", "awk '{print -$2}'", "awk '{print $2*2, $2/4, $2-1}'",
    "awk 'length > 80'", "awk '{print length($1)}'", "awk '{x=$2; print x}'", "awk '/VLLM|python/{print $2}'",
    "grep -w C", "grep -x 7", "grep -n 7", "grep -m1 7", "grep -e VLLM -e python", "grep -F '[python]'",
    "grep -vE '^#|^$'", "grep -E '(python|VLLM).*MiB'", "grep '[v]llm'", "grep 'a\\|C'", "egrep 'Xorg|VLLM'",
    "fgrep .", "grep -o '[0-9]*'", "grep -B1 -A1 Worker", "grep -2 Worker", "grep -q x", "grep -P '\\bC\\b'",
    "grep -oP '\\d+(?=\\s+C)'", "grep -iv mib", "sed 's/ \\+/ /g'", "sed -E 's/ +/ /g'", "sed 's/^ *//; s/ *$//'",
    "sed -n '/VLLM/p'", "sed '/grep/d'", "sed -n '$='", "sed -n 's/.*\\<\\([0-9]\\{3,4\\}\\)\\>.*/[\\1] &/p'",
    "sed 's|/usr||'", "sed 's/a/b/2'", "sed '/VLLM/!d'", "sed -n '/a/,/b/p'", "sed -n '/Processes/,/^+/p'",
    "sed 's/[^0-9]//g'", "sed 's/x/y/;s/y/z/p'", "sed '/^$/d'", "sed -n '1!p'", "sed '2,3d'",
    "sed 's/MiB//g' | awk '{print $8}'", "sed -n '4{p}'", "sed -E 's/.*(Worker|python).*/\\1/I'", "sed -n '3,1p'",
    "sed = ", "sed 's#/#,#g'", "sort -rn", "sort -k2 -n", "sort -nrk6", "head -2 | tail -1", "uniq -u", "cut -f1",
]  # fmt: skip
REFUSED = [
    "awk '{system(\"id\")}'", "awk '{print | \"sh\"}'", "awk '{print > \"x\"}'", "awk 'BEGIN{while(1){}}'",
    "sed 'e id'", "sed 's/x/id/e'", "sed 'w out'", "sed -i s/a/b/", "sed 'r /etc/passwd'", "awk '{getline; print}'",
    "grep x file", "awk -f prog", "perl -pe 1", "xargs kill", "sed ':a;ba'", "awk '{for(;;);}'", "tee x",
    "xargs -I{} echo {}",
]  # fmt: skip
"""Never run, here or anywhere: what such a program does is unknown."""


def stages_of(text: str) -> list[list[str]]:
    """The pipeline's commands."""
    found: list[list[str]] = [[]]
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|")
    lexer.whitespace_split = True
    lexer.commenters = ""
    for word in lexer:
        if word == "|":
            found.append([])
        else:
            found[-1].append(word)
    return found


def real(text: str, given: str) -> str:
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["sh", "-c", text], input=given, capture_output=True, text=True, timeout=20, env=environment)
    return done.stdout


def as_text(lines: tuple[str, ...] | None) -> str | None:
    return None if lines is None else "".join(line + "\n" for line in lines)


def compare(pipeline: str, given: str) -> tuple[bool, str | None]:
    """Whether it is known; where it is, what is wrong with it."""
    answer = as_text(filtered(tuple(given.splitlines()), stages_of(pipeline)))
    if answer is None:
        return False, None
    said = real(pipeline, given)
    # Whether the last line has an end is lost here, and no kill can tell.
    return True, None if answer.rstrip("\n") == said.rstrip("\n") else f"{pipeline}: {answer!r}, real {said!r}"


@pytest.fixture(scope="module", autouse=True)
def _tools() -> None:
    need("awk", "sed", "grep", "cut", "tr", "sort", "uniq", "head", "tail", "xargs")


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_pipeline_prints_what_the_real_one_prints(pipeline: str) -> None:
    answers = [compare(pipeline, text) for text in TEXTS]
    assert [wrong for _, wrong in answers if wrong] == []
    assert any(known for known, _ in answers), "it is not known for any text"


@pytest.mark.parametrize("pipeline", REFUSED)
def test_what_could_run_or_write_something_is_unknown(pipeline: str) -> None:
    assert filtered(tuple(TABLE.splitlines()), stages_of(pipeline)) is None


def test_generated_pipelines(capsys: pytest.CaptureFixture[str]) -> None:
    source = random.Random(SEED + 5)
    singles = [stage for pipeline in PIPELINES for stage in _split(pipeline)]
    cases = known = 0
    wrong: list[str] = []
    for _ in range(150 * SCALE):
        pipeline = " | ".join(source.choice(singles) for _ in range(source.randrange(1, 5)))
        told, mistake = compare(pipeline, source.choice(TEXTS[:3]))
        cases, known = cases + 1, known + told
        wrong += [mistake] if mistake else []
    with capsys.disabled():
        share = 1 - known / cases
        print(f"\nfilters: {cases} pipelines, {len(wrong)} disagreements, {share:.1%} declared unknown (seed {SEED})")
    assert not wrong, "\n".join(wrong[:20])


def _split(pipeline: str) -> list[str]:
    return [shlex.join(stage) for stage in stages_of(pipeline)]


@pytest.mark.parametrize("name", ["mawk", "gawk", "busybox"])
def test_every_awk_agrees(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} not installed: its behaviour cannot be compared")
    program = "busybox awk" if name == "busybox" else name
    for pipeline in PIPELINES:
        if pipeline.startswith("awk ") and "|" not in pipeline:
            for text in TEXTS:
                answer = as_text(filtered(tuple(text.splitlines()), stages_of(pipeline)))
                said = real(pipeline.replace("awk", program, 1), text)
                assert answer is None or answer.rstrip("\n") == said.rstrip("\n"), pipeline
