"""Whether a text can hold a secret at all. Apart from the patterns, whose compilation costs a moment."""

from __future__ import annotations

import re

HINT = re.compile(
    # Bypass: every process's status has a line on the bypass of speculative stores.
    r"key|token|secret|(?<!by)pass|pwd|credential|bearer|auth|pat\b|sig(?:nature)?=|code=|://|hf_|sk-"
    r"|gh[pousr]_|github_pat|glpat|AKIA|ASIA|eyJ|xox|xapp-|AIza|nvapi-|npm_|dckr|r8_|mysql|mariadb|redis|mongo|curl|login|ldap|sqlcmd|smbclient",
    re.IGNORECASE,
)
"""A text without any of these holds nothing that is looked for."""
