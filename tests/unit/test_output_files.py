"""Files that users name are written as a whole: what was there before stays where the writing fails."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

import pytest

from portatile import output_files

posix = pytest.mark.skipif(sys.platform == "win32", reason="rights, links and pipes of POSIX")


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "räport.html"
    output_files.write(file, "ä")
    output_files.write(file, b"second")
    assert file.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [file]


def test_after_an_error_the_earlier_file_is_there(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("of yesterday")

    def fill(path: Path) -> None:
        with output_files.replacing(path) as output:
            output.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")

    for path in (file, tmp_path / "new.html"):
        with pytest.raises(OSError, match="No space"):
            fill(path)
    assert file.read_text() == "of yesterday"
    assert list(tmp_path.iterdir()) == [file]


@posix
def test_rights_and_links_stay(tmp_path: Path) -> None:
    file, link, fresh = tmp_path / "file", tmp_path / "link", tmp_path / "fresh"
    file.write_text("first")
    file.chmod(0o640)
    link.symlink_to(file)
    before = os.umask(0o027)
    try:
        output_files.write(link, "second")
        output_files.write(fresh, "third")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert file.read_text() == "second"
    assert (file.stat().st_mode & 0o777, fresh.stat().st_mode & 0o777) == (0o640, 0o640)


@posix
def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[bytes] = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_bytes()), daemon=True)
    reader.start()
    output_files.write(pipe, "through")
    reader.join(10)
    assert heard == [b"through"]
    assert pipe.is_fifo()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        output_files.write(tmp_path / "nowhere" / "file", "text")
