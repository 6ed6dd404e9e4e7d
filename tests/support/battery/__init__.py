"""One small kernel per construct of OpenCL C with what it must compute: data for the tests of the dialect.

The same cases run as OpenCL on every device (is the expectation right?), compile as CUDA with no GPU, and run as CUDA where there is one.
"""

from battery.case import Case
from battery.customs import CASES as CUSTOMS
from battery.habits import CASES as HABITS
from battery.idioms import CASES as IDIOMS
from battery.images import CASES as IMAGES
from battery.integers import CASES as INTEGERS
from battery.math import CASES as MATH
from battery.memory import CASES as MEMORY
from battery.switches import CASES as SWITCHES
from battery.types import CASES as TYPES
from battery.vectors import CASES as VECTORS
from battery.work import CASES as WORK

GROUPS: dict[str, list[Case]] = {
    "vectors": VECTORS,
    "address spaces, structures": MEMORY,
    "work-items, atomics, groups": WORK,
    "math": [*MATH, *INTEGERS],
    "idioms of C": IDIOMS,
    "customs of C and GNU": CUSTOMS,
    "habits of public programs": HABITS,
    "device switches": SWITCHES,
    "half, images, printf": TYPES,
    "images of every shape": IMAGES,
}
CASES: dict[str, Case] = {case.name: case for group in GROUPS.values() for case in group}

__all__ = ["CASES", "GROUPS", "Case"]
