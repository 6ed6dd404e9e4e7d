"""Conversion of SVG to PNG by an installed program: rsvg-convert, cairosvg, Inkscape or headless Chromium."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from portatile.errors import UsageError

_SCALE = 2
_SECONDS = 120
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PROGRAMS = ("rsvg-convert", "cairosvg", "inkscape", *_BROWSERS)


def renderer() -> str:
    """The program that will draw; raises UsageError with what to install where there is none."""
    for name in _PROGRAMS:
        if path := shutil.which(name):
            return path
    raise UsageError("no program here makes a .png of a figure; write .svg, or install one of rsvg-convert, cairosvg, inkscape, chromium")


def write(document: str, path: Path) -> None:
    """Write an SVG document to ``path`` as a .png of twice its size; raises UsageError if there is no program, or it fails."""
    program = renderer()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "figure.svg")
        source.write_text(document, encoding="utf-8")
        try:
            done = subprocess.run(_command(program, document, source, path.absolute()), capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise UsageError(f"{path} was not written: {program} did not end within {_SECONDS} s; write .svg instead") from None
    if done.returncode or not path.is_file():
        reason = (done.stderr or done.stdout).strip().splitlines()
        raise UsageError(f"{path} was not written by {program}: {reason[-1] if reason else 'it said nothing'}; write .svg instead")


def _command(program: str, document: str, source: Path, path: Path) -> list[str]:
    name = Path(program).stem
    if name == "rsvg-convert":
        return [program, "-z", str(_SCALE), "-o", str(path), str(source)]
    if name == "cairosvg":
        return [program, str(source), "-s", str(_SCALE), "-o", str(path)]
    if name == "inkscape":
        return [program, str(source), "--export-type=png", f"--export-dpi={96 * _SCALE}", f"--export-filename={path}"]
    size = re.search(r'width="(\d+)" height="(\d+)"', document)
    window = f"--window-size={size[1]},{size[2]}" if size else "--window-size=800,600"
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--force-device-scale-factor={_SCALE}"]
    return [program, *quiet, window, f"--screenshot={path}", source.as_uri()]
