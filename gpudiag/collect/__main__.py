"""``python3 -m gpudiag.collect``, and ``python3 -m gpudiag.collect run``."""

from gpudiag.collect.alone import main

raise SystemExit(main())
