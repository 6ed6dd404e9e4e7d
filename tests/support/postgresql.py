"""A real PostgreSQL server for a test: its own folder and port, started, killed and started again; none where its programs are missing."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from support.ports import free_port

_SECONDS = 120.0


def programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``: Debian keeps them beside the search path."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    result = shutil.which("initdb")
    return next((place for place in (*places, *([Path(result).parent] if result else ())) if (place / "postgres").exists()), None)


class PostgresServer:
    """A context manager; ``url`` names its one database. It listens on this machine only."""

    def __init__(self, folder: Path) -> None:
        self._bin = folder
        self._user = (
            next((user for user in ("postgres", "nobody") if _is_user(user)), None) if os.getuid() == 0 else None
        )  # it refuses root
        self._home = Path(tempfile.mkdtemp(prefix="portatile-pg-"))
        self.port = free_port()
        self.url = f"postgresql://tester@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        if self._user is not None:
            shutil.chown(self._home, self._user)
        data = self._home / "data"
        command = [self._bin / "initdb", "-D", data, "-U", "tester", "--auth=trust", "--no-sync", "--no-instructions", "-E", "UTF8"]
        completed = subprocess.run(command, user=self._user, capture_output=True, text=True, cwd=self._home)
        assert completed.returncode == 0, completed.stderr
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "shared_buffers": "16MB",
            "fsync": "off",
        }
        said = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        command = [self._bin / "postgres", "-D", self._home / "data", *said]
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(command, user=self._user, stdout=log, stderr=log, cwd=self._home, start_new_session=True)
        until = time.monotonic() + _SECONDS
        while subprocess.run([self._bin / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]).returncode:
            assert self._process.poll() is None, (self._home / "log").read_text()
            assert time.monotonic() < until, (self._home / "log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """End it and all that it started at once, as a power failure would."""
        if self._process is not None:
            postmaster = psutil.Process(self._process.pid)
            postmaster.suspend()  # so that it starts no other
            all_of_it = [postmaster, *postmaster.children(recursive=True)]
            for process in all_of_it:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.wait()
            self._process = None
            while any(map(_runs, all_of_it)):  # until then they keep the memory that they share
                time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE  # which nobody has waited for, in a container
    except psutil.NoSuchProcess:
        return False


def _is_user(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True
