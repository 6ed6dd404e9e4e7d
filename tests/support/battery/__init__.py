"""One small kernel per construct of OpenCL C with what it must compute: data for the tests of the dialect.

The same cases run as OpenCL on every device (is the expectation right?), compile as CUDA with no GPU, and run as CUDA where there is one.
"""

from support.battery.case import Case
from support.battery.customs import CASES as CUSTOMS
from support.battery.habits import CASES as HABITS
from support.battery.idioms import CASES as IDIOMS
from support.battery.images import CASES as IMAGES
from support.battery.integers import CASES as INTEGERS
from support.battery.math import CASES as MATH
from support.battery.memory import CASES as MEMORY
from support.battery.switches import CASES as SWITCHES
from support.battery.types import CASES as TYPES
from support.battery.vectors import CASES as VECTORS
from support.battery.work import CASES as WORK

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
