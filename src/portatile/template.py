"""Text from a template file beside a module: kernels, generated with Jinja and preprocessor definitions, and HTML."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jinja2

from portatile import settings
from portatile.cache import Cache
from portatile.records import Source, Value

_COMPILED = 1 << 25  # bytes of compiled templates that are kept
_LATE = 256  # expanded texts that are kept
_of_late: dict[tuple[Path, Any], str] = {}
_expands: ContextVar[bool] = ContextVar("expands", default=True)


def load(module_file: str, name: str, defines: Mapping[str, Value], **values: Any) -> Source:
    """The text file ``name`` in the folder of ``module_file``, with ``values`` expanded, and with ``defines`` for the preprocessor.

    It may include other files of that folder and of its parent folder. True and False become 1 and 0. An undefined name in the template
    raises ``jinja2.UndefinedError``.
    """
    path = Path(module_file).parent / name
    text = _expanded(path, values) if _expands.get() else ""
    return Source(name, text, tuple((key, spell(value)) for key, value in defines.items()))


def _expanded(path: Path, values: Mapping[str, Any]) -> str:
    """The text for these values; recent texts are cached, because the parts of a variant and its check problems share many."""
    key = path, _frozen(values)
    try:
        text = _of_late.get(key)
    except TypeError:  # unhashable values
        return _template(path).render(values)
    if text is None:
        if len(_of_late) >= _LATE:
            _of_late.clear()
        text = _of_late[key] = _template(path).render(values)
    return text


def _frozen(values: Mapping[str, Any]) -> tuple[tuple[str, type, Any], ...]:
    """Names and values with their types: True equals 1, but not as text."""
    return tuple((name, type(value), _frozen(value) if isinstance(value, dict) else value) for name, value in values.items())


@contextmanager
def without_texts() -> Iterator[None]:
    """A context in which plans are made with empty texts, which take most of the time: for callers that need only launches and memory."""
    before = _expands.set(False)
    try:
        yield
    finally:
        _expands.reset(before)


@cache
def page(module_file: str, name: str) -> jinja2.Template:
    """The HTML file ``name`` in the folder of ``module_file``, which escapes inserted values; undefined names raise as in ``load``."""
    loader = jinja2.FileSystemLoader(Path(module_file).parent)
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=loader)
    return environment.get_template(name)


def spell(value: Value) -> str:
    """A value as text for the preprocessor."""
    if isinstance(value, bool):
        return str(int(value))
    return repr(value) if isinstance(value, float) else str(value)


@lru_cache(maxsize=64)
def _template(path: Path) -> jinja2.Template:
    return _environment(path.parent).get_template(path.name)


@lru_cache(maxsize=64)
def _environment(folder: Path) -> jinja2.Environment:
    return jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader((folder, folder.parent)),  # the parent folder has what several workloads include
        bytecode_cache=_Compiled(),
    )


class _Compiled(jinja2.BytecodeCache):
    """A cache of compiled templates between processes, within the cache of binaries: Jinja takes half a second for a large template."""

    def load_bytecode(self, bucket: Any) -> None:
        if (kept := _compiled().get(bucket.key)) is not None:
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Any) -> None:
        _compiled().put(bucket.key, bucket.bytecode_to_string())


def _compiled() -> Cache:
    return Cache(settings.load().cache_dir / "templates", _COMPILED, quiet=True)
