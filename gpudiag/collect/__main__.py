"""``python3 -m gpudiag.collect``."""

from gpudiag.collect.main import main

raise SystemExit(main())
