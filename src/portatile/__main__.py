"""The command ``portatile``, also as ``python -m portatile``. Ctrl-C ends it at any moment, without a traceback."""

import os
import signal
import sys


def main() -> int:
    """Run the command line and return its exit code. Before the command begins and after it has ended, Ctrl-C ends the process at once."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # interrupts are ignored, as in a shell's background jobs
        from portatile.cli import main as run

        return run()
    signal.signal(signal.SIGINT, _end)
    from portatile.cli import main as run

    try:
        code = run(begin=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    except KeyboardInterrupt:  # a second interrupt, while the first was handled
        code = 130
    signal.signal(signal.SIGINT, _end)
    return code


def _end(*signalled: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
