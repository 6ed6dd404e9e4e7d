"""What of the OpenCL back end needs no device: where a compiler's message points."""

from __future__ import annotations

import pytest

from portatile.device.opencl.compiler import _relocated

TEXT = '#define N 3\n#line 1 "prelude.h"\nint a;\nint b;\n#line 1 "mine.cl"\n__kernel void f()\n{\n    missing;\n}\n'


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("<kernel>:8:5: error: missing", "mine.cl:3:5: error: missing"),
        ("<kernel>:3:1: warning: unused\n<kernel>:6:1: note", "prelude.h:1:1: warning: unused\nmine.cl:1:1: note"),
        ("<kernel>:99:1: beyond the end", "<kernel>:99:1: beyond the end"),
        ("mine.cl:3:5: already right", "mine.cl:3:5: already right"),
    ],
)
def test_places_are_the_users_own(log: str, expected: str) -> None:
    assert _relocated(log, TEXT) == expected


def test_names_of_files_are_as_their_user_writes_them() -> None:
    assert _relocated("<kernel>:2:5: error", '#line 7 "a \\"b\\" \\\\c.cl"\nx') == 'a "b" \\c.cl:7:5: error'
