"""``python -m portatile`` is the command line."""

import sys

from portatile.cli import main

sys.exit(main())
