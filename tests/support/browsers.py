"""The type of what opens tabs in a browser, which tests/browser/conftest.py makes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

Tabs = Callable[..., AbstractContextManager[Any]]
"""Takes playwright's options for contexts."""
