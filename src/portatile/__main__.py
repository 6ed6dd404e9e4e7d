"""The command ``portatile``, also as ``python -m portatile``: the command line, which Ctrl-C ends without a traceback at any moment."""

import os
import signal
import sys


def main() -> int:
    """Run the command line and return its exit code. Ctrl-C ends the process on the spot until the command runs, and when it is done."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, in the background of a shell
        from portatile.cli import main as run

        return run()
    signal.signal(signal.SIGINT, _end)
    from portatile.cli import main as run

    try:
        code = run(begin=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    except KeyboardInterrupt:  # a second one, while the first was being answered
        code = 130
    signal.signal(signal.SIGINT, _end)
    return code


def _end(*signalled: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    sys.exit(main())
