"""Finds names that a text declares as variables although macro definitions would replace them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from portatile.dialect.passes import expressions
from portatile.dialect.places import Places
from portatile.dialect.preprocess import preprocess
from portatile.dialect.tokens import Tokens, UnbalancedError
from portatile.errors import CompileError
from portatile.records import ELEMENT

_MARK = "portatile_defines_"
_TYPES = frozenset({"size_t", "ptrdiff_t", "bool", "const", "unsigned", "signed"})
_ENDS = frozenset({"=", ";", ",", "[", ")", ":"})


def first_declared(text: str, file: str, defines: Mapping[str, str], names: Iterable[str]) -> tuple[str, str] | None:
    """The first of the ``names``, all in ``defines``, that the text declares as a variable or member, and its file and line.

    The text is read with each of them defined as a unique name, so that ``#ifdef`` and ``#undef`` have their effect. None if there is no
    such name, or if the text cannot be read in this way.
    """
    doubtful = [name for name in names if re.search(rf"(?:\w\s+|\*\s*){name}\b|\b{name}\s*=(?!=)", text)]
    if not doubtful:
        return None
    try:
        plain = preprocess(text, file, {**defines, **{name: _MARK + name for name in doubtful}}, "opencl")
        tokens = Tokens(plain)
    except (CompileError, UnbalancedError):
        return None
    own = expressions.declared(tokens)
    types = _TYPES | own.vectors | own.aggregates | own.aliases.keys()
    for i, token in enumerate(tokens):
        if not token.text.startswith(_MARK):
            continue
        before, after = tokens.text_at(i - 1 if tokens.text_at(i - 1) != "*" else i - 2), tokens.text_at(i + 1)
        behind_type = before in types or ELEMENT.fullmatch(before) is not None
        if (behind_type and after in _ENDS) or after == "=" or before in (".", "->"):
            return token.text.removeprefix(_MARK), Places(plain, file).at(token.line)
    return None
