"""A log's PIDs are numbers of its own host."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudiag.explain import explain_fully

TABLE = "    PID    PPID STAT COMMAND\n   4150       1 Sl   python3 work.py\n"
LOG = "(EngineCore_DP0 pid=4150) INFO 02-20 19:00:06 [core.py:77] Initializing a V1 LLM engine\n"


@pytest.mark.parametrize(
    ("looks", "log", "kept"),
    [
        (["a"], "ssh a cat vllm.log", True),
        (["a"], "ssh b cat vllm.log", False),
        (["a", "b"], "ssh a cat vllm.log", False),
        (["a"], "cat vllm.log", True),
        (["a docker exec c"], "ssh a docker logs c", True),
        (["a docker exec c"], "ssh b docker logs c", False),
        (["a", "b"], "cat vllm.log", False),
    ],
)
def test_a_role_is_of_the_only_host_that_has_the_number(tmp_path: Path, looks: list[str], log: str, kept: bool) -> None:
    path = tmp_path / "session.txt"
    tables = "".join(f"$ ssh {host} ps -eo pid,ppid,stat,args\n{TABLE}" for host in looks)
    path.write_text(f"{tables}$ {log}\n{LOG}")
    assert bool(explain_fully([path]).incident.parsed.roles) is kept
