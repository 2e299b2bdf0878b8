"""``python3 -m gpudiag.collect``."""

import sys

from gpudiag.collect.ahead import begin

_begun = begin(sys.argv[1:])

from gpudiag.collect.main import main  # noqa: E402 - takes as long to load as the driver to answer

raise SystemExit(main(begun=_begun))
