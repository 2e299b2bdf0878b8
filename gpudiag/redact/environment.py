"""Environment variables that may leave the machine: an allow-list, because anything may stand in the others."""

from __future__ import annotations

from collections.abc import Mapping

from gpudiag.redact.names import is_secret_variable
from gpudiag.redact.redactor import Redactor

_PREFIXES = ("CUDA_", "NVIDIA_", "VLLM_", "NCCL_", "RAY_")
_NAMES = frozenset(
    {"SLURM_JOB_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "JPY_PARENT_PID", "HOSTNAME"}
)
_PRESENCE = frozenset({"KUBERNETES_SERVICE_HOST"})
"""That they are set is telling; their values are nobody's business."""
PRESENT = "present"
_VALUE_CAP = 2000


def parse(raw: bytes) -> dict[str, str]:
    """A raw ``/proc/PID/environ``. A process that changed its title has overwritten parts of it with NULs."""
    pairs = (item.partition("=") for item in raw.decode("utf-8", "surrogateescape").split("\0"))
    return {name: value for name, sign, value in pairs if sign and name}


def allowed(variables: Mapping[str, str], redactor: Redactor) -> dict[str, str]:
    """The variables that are on the list, without secrets in their values."""
    result: dict[str, str] = {}
    for name, value in variables.items():
        if name in _PRESENCE:
            result[name] = PRESENT
        elif (name in _NAMES or name.startswith(_PREFIXES)) and not is_secret_variable(name):
            result[name] = redactor.row(value[:_VALUE_CAP])
    return result
