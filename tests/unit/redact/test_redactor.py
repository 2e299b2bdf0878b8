"""Secrets go, everything else stays as it was."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpudiag.redact.environment import PRESENT, allowed, parse
from gpudiag.redact.hint import REDACTED
from gpudiag.redact.names import is_secret
from gpudiag.redact.redactor import Redactor
from gpudiag.redact.rows import Rows

FIXTURES = Path(__file__).parents[2] / "fixtures"
LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
PLAIN = st.text(LETTERS + "-_.+=@:!#%^*~/", min_size=6, max_size=60).map(lambda text: "Q7" + text + "z9")
"""A secret that may stand in a line without quotes."""
ANY = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=4, max_size=60
).map(lambda text: "Q7" + text + "z9")  # fmt: skip
BODY = st.text(LETTERS, min_size=36, max_size=60).map(lambda text: "4f" + text)
TOKENS = st.one_of(
    BODY.map("hf_".__add__),
    BODY.map("sk-".__add__),
    BODY.map("sk-proj-".__add__),
    BODY.map("ghp_".__add__),
    st.text("ABCDEFGH234567", min_size=16, max_size=16).map("AKIA".__add__),
    BODY.map(lambda text: f"eyJ{text}.eyJ{text}.{text}"),
    BODY.map("xoxb-".__add__),
)
OPTIONS = st.sampled_from(
    ["--api-key", "--hf-token", "--token", "--password", "-api_key", "--admin-api-key", "--client-secret", "--apiKey"]
)
VARIABLES = st.sampled_from(["HF_TOKEN", "OPENAI_API_KEY", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD"])
LINES = st.one_of(
    st.builds("vllm serve m {} {} --port 80".format, OPTIONS, PLAIN),
    st.builds("vllm serve m {}={} --port 80".format, OPTIONS, PLAIN),
    st.builds('bash -c "vllm serve m {} {}"'.format, OPTIONS, PLAIN),
    st.builds("bash -c 'exec vllm {} \"{}\" --port 80'".format, OPTIONS, PLAIN),
    st.builds("{}={} vllm serve m; sleep 3".format, VARIABLES, PLAIN),
    st.builds("docker run -e {}='{}' -p 80:80 image".format, VARIABLES, PLAIN),
    st.builds("curl -H 'Authorization: Bearer {}' localhost".format, BODY),
    st.builds('curl -H "X-Api-Key: {}" localhost'.format, PLAIN),
    st.builds("curl -u me:{} localhost".format, PLAIN),
    st.builds("mysql -uroot -p{} db".format, PLAIN),
    st.builds("sshpass -p {} ssh node pkill x".format, PLAIN),
    st.builds("redis-cli -a {} shutdown".format, PLAIN),
    st.builds("pip install https://me:{}@example.org/x".format, BODY),
    st.builds("https://example.org/x?sig={}&a=b".format, BODY),
    st.builds("echo {} | docker login".format, TOKENS),
    st.builds("  884     1   884 root S Mon Nov 30 19:00:06 2026 python3 python3 -m x {} {}".format, OPTIONS, PLAIN),
    st.builds("non-default args: {{'port': 80, 'api_key': ['{}']}}".format, PLAIN),
)
UNCHANGED = [
    "INFO token budget 8192, key model.layers.10.self_attn.11.qkv_proj.12.weight13 not in the checkpoint",
    "KeyError: 'model.embed_tokens.weight'; cache key torch_compile_cache/0123456789abcdef",
    "python3 -m vllm.entrypoints.openai.api_server --port 8000 --tokenizer /models/t --tokenizer-mode auto",
    "vllm serve m --max-num-batched-tokens 8192 --skip-tokenizer-init --ssl-keyfile /etc/key.pem",
    "TOKENIZERS_PARALLELISM=false PWD=/root vllm serve m",
    "  884     1   884   884 root Sl Mon Nov 30 19:00:06 2026  12 VLLM::Worker_TP VLLM::Worker_TP0",
    "VLLM::EngineCore", "sglang::scheduler_TP0",
    "python3 -c from multiprocessing.spawn import spawn_main; spawn_main(3)",
    "pkill -9 -f 'vllm.entrypoints'; sleep 3; fuser -k /dev/nvidia*", "kill -9 $(cat /run/token.pid)",
    "docker run -p 8000:8000 -u 1000 image", "ssh -p 22 -i key root@node 'pkill -f x'", "mysqld --port 3306",
    "Avg time per output token: 12.3ms, eos_token='</s>', bos_token_id: 1", "api_key=None, hf_token: null",
    "tcp://127.0.0.1:5555 http://localhost:8000/v1", "git@example.org:me/x.git", "--password-file /run/secrets/p",
    "torch.OutOfMemoryError: Process 162519 has 20.28 GiB memory in use.", "curl localhost -p 80", "",
    "NVRM: Xid (PCI:0000:65:00): 45, pid=884, name=VLLM::Worker_TP",
    "task-sk-manager hf_transfer ghp_ AKIA eyJ", "export NCCL_DEBUG=INFO VLLM_LOGGING_LEVEL=DEBUG",
]  # fmt: skip


def secret_of(line: str) -> str:
    """The part of a generated line that must not survive."""
    return next((word for word in ("Q7", "4f") if word in line), "AKIA")


@given(LINES)
@example("vllm serve m --api-key Q7x\\z9 --port 80")
@example("wandb: logged in with key Q75925d43504273d8b49fe7aa2d471baf4210cz9")
@example("Incorrect API key provided: Q7aB3dE5gH7jK9mN1z9.")
def test_no_secret_survives_in_a_line(line: str) -> None:
    redacted = Redactor().row(line)
    assert secret_of(line) not in redacted
    assert "z9" not in redacted
    assert REDACTED in redacted


@given(LINES)
def test_nor_inside_json(line: str) -> None:
    redacted = Redactor().row(json.dumps({"884": {"cmdline": line + "\0", "comm": "python3"}}))
    assert secret_of(line) not in redacted
    record = json.loads(redacted)["884"]
    assert record["comm"] == "python3"
    assert record["cmdline"].endswith("\0")


@given(OPTIONS, PLAIN, VARIABLES, PLAIN)
def test_nor_between_nuls_inside_json(option: str, first: str, variable: str, second: str) -> None:
    words = [f"{variable}={second}", "vllm", option, first, "--port", "80", ""]
    redacted = json.loads(Redactor().row(json.dumps("\0".join(words))))
    assert redacted.split("\0") == [f"{variable}={REDACTED}", "vllm", option, REDACTED, "--port", "80", ""]


@given(LINES)
def test_twice_is_as_once(line: str) -> None:
    once = Redactor().row(line)
    again = Redactor()
    assert again.row(once) == once
    assert again.counts == {}


@given(OPTIONS, ANY, VARIABLES, ANY)
def test_an_argument_vector_loses_whole_words(option: str, first: str, variable: str, second: str) -> None:
    words = ["/usr/bin/env", f"{variable}={second}", "python3", "-m", "vllm.entrypoints", option, first, "--port", "80"]
    redactor = Redactor()
    result = redactor.argv(words)
    assert result == [
        "/usr/bin/env", f"{variable}={REDACTED}", "python3", "-m", "vllm.entrypoints", option, REDACTED, "--port", "80",
    ]  # fmt: skip
    assert sum(redactor.counts.values()) == 2
    assert Redactor().argv(result) == result


@given(OPTIONS, ANY)
def test_a_raw_command_line_keeps_its_nuls(option: str, secret: str) -> None:
    raw = "\0".join(["vllm", "serve", f"{option}={secret}", "m", "", ""])
    assert Redactor().cmdline(raw) == f"vllm\0serve\0{option}={REDACTED}\0m\0\0"


@given(LINES)
def test_the_structure_of_a_line_stays(line: str) -> None:
    redacted = Redactor().row(line)
    for mark in ("--port 80", "; sleep 3", " localhost", "-p 80:80 image", "ssh node pkill x", " | docker login"):
        assert (mark in line) == (mark in redacted)
    assert redacted.split()[0].partition("=")[0] == line.split()[0].partition("=")[0] or line.startswith("http")
    assert line.count('"') == redacted.count('"')


@pytest.mark.parametrize("line", UNCHANGED)
def test_what_is_no_secret_stays(line: str) -> None:
    redactor = Redactor()
    assert redactor.row(line) == line
    assert redactor.argv(line.split(" ")) == line.split(" ")
    assert redactor.cmdline(line.replace(" ", "\0")) == line.replace(" ", "\0")
    assert redactor.counts == {}


def test_real_captures_hold_no_secret_and_stay_as_they_are() -> None:
    redactor = Redactor()
    for path in sorted((FIXTURES / "h200").rglob("*.*")):
        for line in path.read_text(errors="replace").split("\n"):
            assert redactor.row(line) == line, path.name


@given(st.text(max_size=300))
def test_any_text_comes_back_with_its_lines(text: str) -> None:
    redactor = Redactor()
    once = redactor.row(text)
    assert redactor.row(once) == once
    assert len(redactor.argv(text.split(" "))) == len(text.split(" "))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (['"Cmd": [', '  "--api-key",', '  "s3cret",', '  "--port",'], [0, 1, 3]),
        (["- name: HF_TOKEN", "  value: s3cret", "- name: PORT", "  value: 80"], [0, 2, 3]),
        (["-----BEGIN RSA PRIVATE KEY-----", "s3cret", "s3cret+/=", "-----END RSA PRIVATE KEY-----"], [0, 3]),
        (["- --password", "- s3cret", "- serve"], [0, 2]),
        (['  "--api-key",', '  "--port"', '  "s3cret"'], [0, 1, 2]),
    ],
)
def test_a_secret_on_the_line_behind_the_one_that_announces_it(lines: list[str], expected: list[int]) -> None:
    rows = Rows(Redactor())
    once = [rows.row(line) for line in lines]
    assert [number for number, line in enumerate(lines) if once[number] == line] == expected
    assert all("s3cret" not in once[number] for number in range(len(lines)) if number not in expected)
    again = Rows(Redactor())
    assert [again.row(line) for line in once] == once


def test_json_is_looked_at_as_values() -> None:
    rows = Rows(Redactor())
    record = {
        "pid": 7,
        "cmdline": "vllm\0--api-key\0a b\0",
        "environ": {"CUDA_X": "1", "MY": "a b"},
        "list": [{"name": "DB_PASSWORD", "value": "a b"}, {"name": "PORT", "value": "80"}],
        "password": "a b",
        "max_tokens": 80,
    }
    cleaned = json.loads(rows.row(json.dumps(record) + ",").rstrip(","))
    assert cleaned == {
        "pid": 7,
        "cmdline": f"vllm\0--api-key\0{REDACTED}\0",
        "environ": {"CUDA_X": "1"},
        "list": [{"name": "DB_PASSWORD", "value": REDACTED}, {"name": "PORT", "value": "80"}],
        "password": REDACTED,
        "max_tokens": 80,
    }
    twice = '{"a": "--api-key s3cret", "a": "x"}'
    assert "s3cret" not in rows.row(twice)


def test_a_command_that_prints_the_secret_stays() -> None:
    assert Redactor().row("vllm serve --api-key $(cat /k) --port 1") == "vllm serve --api-key $(cat /k) --port 1"


def test_several_keys_of_one_option() -> None:
    line = "vllm serve m --api-key k1Abcdefgh234 k2Abcdefgh234 --port 80"
    assert Redactor().row(line) == f"vllm serve m --api-key {REDACTED} {REDACTED} --port 80"
    assert (
        Redactor().argv(line.split())
        == line.replace("k1Abcdefgh234", REDACTED).replace("k2Abcdefgh234", REDACTED).split()
    )
    assert Redactor().argv(["x", "--api-key", "k", "serve"]) == ["x", "--api-key", REDACTED, "serve"]


def test_a_script_in_an_argument_keeps_its_commands() -> None:
    script = "export HF_TOKEN='a b'; pkill -f vllm; vllm serve m"
    assert Redactor().argv(["bash", "-c", script])[2] == f"export HF_TOKEN='{REDACTED}'; pkill -f vllm; vllm serve m"


def test_options_of_programs_in_argument_vectors() -> None:
    redactor = Redactor()
    assert redactor.argv(["/usr/bin/mysql", "-uroot", "-ppw", "db"]) == [
        "/usr/bin/mysql",
        "-uroot",
        f"-p{REDACTED}",
        "db",
    ]
    assert redactor.argv(["sudo", "sshpass", "-p", "pw", "ssh"]) == ["sudo", "sshpass", "-p", REDACTED, "ssh"]
    assert redactor.argv(["docker", "login", "-p", "pw"]) == ["docker", "login", "-p", REDACTED]
    assert redactor.argv(["docker", "run", "-p", "80:80"]) == ["docker", "run", "-p", "80:80"]
    assert redactor.argv(["curl", "--user", "a:b"]) == ["curl", "--user", REDACTED]
    assert redactor.summary() == ["4 × option value"]


def test_what_was_removed_is_counted_by_kind() -> None:
    redactor = Redactor()
    redactor.row("HF_TOKEN=abc vllm serve m --api-key def")
    redactor.row("https://me:pw@example.org")
    assert redactor.summary() == ["1 × URL credential", "1 × assigned value", "1 × option value"]


@pytest.mark.parametrize("name", ["api-key", "HF_TOKEN", "adminPassword", "X-Api-Key", "AWS_SECRET_ACCESS_KEY", "pwd"])
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["tokenizer", "max-tokens", "eos_token", "PWD", "password-file", "token-budget", "key", "keyboard", "author", ""],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret(name)


def test_the_environment_leaves_by_its_list() -> None:
    raw = (
        b"\0\0CUDA_VISIBLE_DEVICES=0,1\0VLLM_API_KEY=s3cret\0VLLM_USE_V1=1\0HOME=/root\0PWD=/root\0SLURM_JOB_ID=77\0"
        b"KUBERNETES_SERVICE_HOST=10.0.0.1\0NCCL_X=http://a:b@c\0HF_TOKEN=x\0MY_CUDA_X=1\0=x\0torn"
    )
    assert allowed(parse(raw), Redactor()) == {
        "CUDA_VISIBLE_DEVICES": "0,1", "VLLM_USE_V1": "1", "SLURM_JOB_ID": "77", "KUBERNETES_SERVICE_HOST": PRESENT,
        "NCCL_X": f"http://{REDACTED}@c",
    }  # fmt: skip


@pytest.mark.parametrize(
    "unit",
    ["--api-key ", "a=", "token=", "'", '"', '\\"', "://", "a://b", "curl -u ", "mysql ", "Bearer ", "eyJ.", "--a-",
     "token:[", "authorization: bearer ", "x\\u0000--api-key\\u0000", "sk-", "key key ", "--api-key 'x", "a.b-",
     "pass ", "login a password b", "echo a | sudo -", "sudo -S <", "cookie: a", "-----BEGIN PRIVATE KEY-----",
     '"name":"key","value":', "hooks.slack.com/services/", "SG.a.", "bot12345678:AA", "pypi-", "wandb login --a "],
)  # fmt: skip
def test_the_time_is_bounded(unit: str) -> None:
    started = time.process_time()
    Redactor().row("key" + unit * (200_000 // len(unit)))
    assert time.process_time() - started < 5
