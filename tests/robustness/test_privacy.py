"""Canaries: secrets of many kinds planted wherever the collector looks, and looked for in everything that comes out."""

from __future__ import annotations

import base64
import json
import os
import random
import shutil
import string
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gpudiag.bundle.reader import read_contents
from tests.unit.collect.driver import compiled

ROOT = Path(__file__).parents[2]
NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
TOOL = [sys.executable, "-m", "gpudiag"]
PATTERN = "vllm.entrypoints"
USER = "alice"
Tried = Callable[[str, int, str], None]

_FATE = random.Random(20)
_LETTERS = string.ascii_letters + string.digits


def _some(length: int, letters: str = _LETTERS) -> str:
    """Random, and with a digit in front so that it looks like no word."""
    return "7" + "".join(_FATE.choices(letters, k=length - 1))


SECRETS: Mapping[str, str] = {
    "api key": f"Q-{_some(24)}",
    "api key of this engine": f"token-{_some(20)}",
    "hugging face": f"hf_{_some(34)}",
    "openai": f"sk-proj-{_some(40)}",
    "aws id": "AKIA" + _some(16, string.ascii_uppercase + "234567"),
    "aws secret": _some(40, _LETTERS + "/+"),
    "github": f"ghp_{_some(36)}",
    "github, fine-grained": f"github_pat_{_some(60)}",
    "gitlab": f"glpat-{_some(20)}",
    "slack": f"xoxb-{_some(12, string.digits)}-{_some(24)}",
    "webhook": f"T{_some(9)}/B{_some(9)}/{_some(24)}",
    "jwt": f"eyJ{_some(30)}.eyJ{_some(60)}.{_some(43)}",
    "bearer": _some(32),
    "basic": base64.b64encode(f"me:{_some(18)}".encode()).decode(),
    "password in a url": _some(16),
    "signature": _some(44),
    "mysql": _some(14),
    "sshpass": _some(15),
    "curl": _some(17),
    "postgres": _some(18),
    "redis": _some(19),
    "sudo": _some(13),
    "google": f"AIza{_some(35)}",
    "wandb": _some(40, "0123456789abcdef"),
    "nvidia": f"nvapi-{_some(60)}",
    "npm": f"npm_{_some(36)}",
    "cookie": _some(48),
    "private key": _some(64),
    "docker login": f"dckr_pat_{_some(27)}",
    "variable of a pod": _some(22),
    "database": _some(21),
}
S = SECRETS
BOOKED = 77
"""The PID on which the stand-in for NVIDIA's library books memory."""
ARGV = (
    *("--model", "/models/m", "--port", "8000", "--tokenizer-mode", "auto", "--max-num-batched-tokens", "8192"),
    *("--api-key", S["api key"], f"--hf-token={S['hugging face']}", "--served-model-name", "m"),
    *("--db", f"postgresql://me:{S['password in a url']}@db:5432/x"),
    *("--weights", f"https://bucket/x?X-Amz-Signature={S['signature']}&a=b"),
    *("--header", f"Authorization: Bearer {S['bearer']}", "--extra", f'{{"openai_api_key": "{S["openai"]}"}}'),
)
ENVIRONMENT = {
    "HF_TOKEN": S["hugging face"],
    "AWS_ACCESS_KEY_ID": S["aws id"],
    "AWS_SECRET_ACCESS_KEY": S["aws secret"],
    "WANDB_API_KEY": S["wandb"],
    "VLLM_API_KEY": S["api key of this engine"],
    "RAY_REDIS_PASSWORD": S["redis"],
    "NCCL_NOTE": f"fetch https://me:{S['password in a url']}@hub/x",
    "CUDA_NOTE": f"key {S['nvidia']}",
    "CUDA_VISIBLE_DEVICES": "0",
}
LOG = (
    f"INFO 11-30 19:00:00 api_server.py:1 args: Namespace(port=8000, api_key=['{S['api key']}'], model='m')",
    f"INFO 11-30 19:00:00 non-default args: {{'api_key': '{S['api key of this engine']}', 'max_model_len': 8192}}",
    f"WARNING 11-30 19:00:01 download of https://me:{S['password in a url']}@hub/m failed: 403",
    f"DEBUG 11-30 19:00:01 headers: {{'Authorization': 'Basic {S['basic']}', 'Cookie': 'a'}}",
    f"Cookie: session={S['cookie']}",
    f"export OPENAI_API_KEY={S['openai']}",
    f"notify https://hooks.slack.com/services/{S['webhook']}",
    "-----BEGIN RSA PRIVATE KEY-----",
    S["private key"],
    "-----END RSA PRIVATE KEY-----",
    f"INFO 11-30 19:00:02 using {S['google']} and {S['jwt']}",
    f"wandb: logged in with key {S['wandb']}",
)
LINES = (
    f"echo {S['sudo']} | sudo -S pkill -9 -f {PATTERN}",
    f"sshpass -p {S['sshpass']} ssh {USER}@node pkill -9 -f {PATTERN}",
    f'curl -H "Authorization: Bearer {S["bearer"]}" localhost:8000/stop; pkill -9 -f {PATTERN}',
    f"curl -u {USER}:{S['curl']} localhost/stop && kill -9 4711",
    f"mysql -uroot -p{S['mysql']} -e 'select 1'; kill 4711",
    f"PGPASSWORD={S['postgres']} psql -c 'select 1'; kill 4711",
    f"redis-cli -a {S['redis']} shutdown; fuser -k /dev/nvidia*",
    f"wandb login {S['wandb']}; pkill -f {PATTERN}",
    f"docker login -u {USER} -p '{S['docker login']}' && docker kill c1",
    f"NPM_TOKEN={S['npm']} GITHUB_TOKEN='{S['github']}' vllm serve m; kill %1",
    f"git push https://{USER}:{S['github, fine-grained']}@github.com/x; killall vllm",
    f"CI_TOKEN={S['gitlab']} SLACK={S['slack']} ./stop.sh; kill -9 4712",
)
INSPECTED = f"""[
    {{
        "Id": "{"c1" * 32}",
        "Config": {{
            "Env": [
                "HF_TOKEN={S["hugging face"]}",
                "DATABASE_URL=postgres://me:{S["database"]}@db/x",
                "VLLM_API_KEY={S["api key of this engine"]}"
            ],
            "Cmd": [
                "--port",
                "8000",
                "--api-key",
                "{S["api key"]}"
            ],
            "Labels": {{"registry.token": "{S["gitlab"]}", "who": "{USER}"}}
        }},
        "RestartPolicy": {{"Name": "always"}}
    }}
]
"""
POD = f"""      env:
      - name: DB_PASSWORD
        value: {S["variable of a pod"]}
      - name: HF_TOKEN
        value: "{S["hugging face"]}"
"""
SERVER = "import sys, time; print(open(sys.argv[1]).read(), flush=True); time.sleep(60)"


def forms(secret: str) -> Iterator[str]:
    """The secret, and what else it would be known by."""
    yield secret
    yield urllib.parse.quote(secret, safe="")
    yield base64.b64encode(secret.encode()).decode().rstrip("=")
    yield json.dumps(secret)[1:-1]


def leaks(text: str) -> list[str]:
    """Kinds of secrets that are in it."""
    return [kind for kind, secret in SECRETS.items() if any(form in text for form in forms(secret))]


def run(folder: Path, *words: str, before: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    return subprocess.run(
        [*before, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def outputs(folder: Path, bundle: str) -> Iterator[tuple[str, str]]:
    """Everything that explain makes of it."""
    for form in ("terminal", "json", "markdown", "html"):
        done = run(folder, *TOOL, "explain", "--format", form, bundle)
        assert done.returncode in (0, 10, 11, 12), done.stderr
        yield form, done.stdout + done.stderr
    run(folder, *TOOL, "explain", "--script", "plan.sh", bundle)
    yield "script", (folder / "plan.sh").read_text() if (folder / "plan.sh").exists() else ""


def contents_of(bundle: Path) -> dict[str, str]:
    return {member.name: member.data.decode("utf-8", "replace") for member in read_contents(bundle).members}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a bundle of a machine full of secrets, and what the collector said."""
    if os.geteuid() or shutil.which("unshare") is None:
        pytest.skip("no right to make a PID namespace")
    folder = tmp_path_factory.mktemp("canaries")
    (folder / "log-text").write_text("\n".join(LOG))
    now = int(time.time()) - 60
    (folder / ".bash_history").write_text("".join(f"#{now + n}\n{line}\n" for n, line in enumerate(LINES)))
    (folder / ".zsh_history").write_text("".join(f": {now + n}:0;{line}\n" for n, line in enumerate(LINES)))
    stated = [word for line in LINES[:3] for word in ("--kill", line)]
    words = ["collect", "--duration", "0.5", "-o", "x.tgz", "--log", "server.log", *stated]
    script = (
        f"echo {BOOKED - 1} >/proc/sys/kernel/ns_last_pid; "
        f'"$0" -c "$1" log-text "${{@:2:{len(ARGV)}}}" >server.log 2>&1 & [ $! = {BOOKED} ] || exit 9; '
        f'exec "$0" -m gpudiag "${{@:{len(ARGV) + 2}}}"'
    )
    before = (*NAMESPACE, "bash", "-c", script, sys.executable, SERVER, *ARGV)
    done = run(folder, *words, before=before, **compiled(folder), **ENVIRONMENT, HOME=str(folder), HISTFILE="")
    assert (folder / "x.tgz").exists(), done.stderr
    return folder, done.stderr


def test_collected(machine: tuple[Path, str], tried: Tried) -> None:
    folder, said = machine
    members = contents_of(folder / "x.tgz")
    found = {name: kinds for name, text in [*members.items(), ("what it said", said)] if (kinds := leaks(text))}
    assert found == {}
    # What a diagnosis needs is there: whose argument vector and environment it was, and what the commands were.
    row = json.loads(members["look-1/proc.json"])[str(BOOKED)]
    kept = [word for word in ARGV if not leaks(word)]
    assert [word for word in kept if word not in row["cmdline"].split("\0")] == []
    assert row["environ"]["CUDA_VISIBLE_DEVICES"] == "0"
    commands = [record["cmd"] for record in json.loads(members["kill-commands.json"])]
    assert len(commands) == 2 * len(LINES) + 3
    whole = "\n".join(commands)
    assert [piece for piece in (PATTERN, USER, "4711", "%1", "NPM_TOKEN") if piece not in whole] == []
    tried(
        "Kinds of secrets in arguments, environment, log, history, stated commands",
        len(S),
        "in no member of the bundle",
    )


def test_explained(machine: tuple[Path, str], tried: Tried) -> None:
    folder, _ = machine
    shown = dict(outputs(folder, "x.tgz"))
    assert {form: kinds for form, text in shown.items() if (kinds := leaks(text))} == {}
    assert all(str(BOOKED) in text for form, text in shown.items() if form != "script")
    tried("The same in the report as text, JSON, Markdown, HTML, and in its script", len(S), "in none of them")


def test_redacted_twice(machine: tuple[Path, str], tried: Tried) -> None:
    folder, _ = machine
    done = run(folder, *TOOL, "redact", "x.tgz", "-o", "again.tgz")
    assert done.returncode == 0, done.stderr
    first, again = contents_of(folder / "x.tgz"), contents_of(folder / "again.tgz")
    assert {name for name in first if first[name] != again.get(name)} == set()
    tried("Sources of a bundle that was redacted already", len(first), "redacted again: not a byte differs")


def test_without_redaction_and_redacted_later(tmp_path: Path, tried: Tried) -> None:
    """A folder of outputs saved by hand, with what engines of containers print, redacted and explained."""
    saved = tmp_path / "saved"
    saved.mkdir()
    texts = {
        "docker-inspect.json": INSPECTED,
        "pod.yaml": POD,
        "history.txt": "\n".join(LINES),
        "server.log": "\n".join(LOG),
        "ps.txt": "PID PPID USER COMMAND\n" + f"77 1 {USER} python3 -m {PATTERN} {' '.join(ARGV)}\n",
        "session.txt": "".join(f"{USER}@node:~$ {line}\n" for line in LINES),
    }
    for name, text in texts.items():
        (saved / name).write_text(text)
    planted = {kind for text in texts.values() for kind in leaks(text)}
    assert planted == set(SECRETS) - {"aws id", "aws secret", "nvidia"}, "these stand in an environment only"
    done = run(tmp_path, *TOOL, "redact", "saved", "-o", "saved.tgz")
    assert done.returncode == 0, done.stderr
    members = contents_of(tmp_path / "saved.tgz")
    assert {name: kinds for name, text in members.items() if (kinds := leaks(text))} == {}
    whole = "\n".join(members.values())
    assert [text for text in (PATTERN, USER, "4711", "--api-key", "always", "HF_TOKEN") if text not in whole] == []
    shown = dict(outputs(tmp_path, "saved.tgz"))
    assert {form: kinds for form, text in shown.items() if (kinds := leaks(text))} == {}
    tried(
        "Kinds of secrets in texts saved by hand: docker inspect, a pod, ps, history, log", len(planted), "in no copy"
    )


def test_run_and_its_bundle(tmp_path: Path, tried: Tried) -> None:
    line = f"export GITHUB_TOKEN={S['github']}; curl -s -u me:{S['curl']} localhost:1; kill -0 $$"
    done = run(tmp_path, *TOOL, "run", "--no-explain", "-o", "x.tgz", "--", line)
    members = contents_of(tmp_path / "x.tgz")
    assert {name: kinds for name, text in [*members.items(), ("said", done.stderr)] if (kinds := leaks(text))} == {}
    assert "kill -0 $$" in "\n".join(members.values())
    tried("Secrets in a command given to gpudiag run", 2, "in no member of its bundle")
