"""The tokens of the preprocessor: numbers and operators by C's rules, with the types that pcpp's grammar of ``#if`` knows."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pcpp.parser import LexToken

_OPERATORS = {
    "...": "DOT", "<<=": "LSHIFTEQUAL", ">>=": "RSHIFTEQUAL", "##": "DPOUND", "->": "DEREFERENCE", "++": "PLUSPLUS", "--": "MINUSMINUS",
    "<<": "LSHIFT", ">>": "RSHIFT", "<=": "LESSEQUAL", ">=": "GREATEREQUAL", "==": "EQUALITY", "!=": "INEQUALITY", "&&": "LOGICALAND",
    "||": "LOGICALOR", "+=": "PLUSEQUAL", "-=": "MINUSEQUAL", "*=": "MULTIPLYEQUAL", "/=": "DIVIDEEQUAL", "%=": "PERCENTEQUAL",
    "&=": "ANDEQUAL", "|=": "OREQUAL", "^=": "XOREQUAL", "#": "POUND", "+": "PLUS", "-": "MINUS", "*": "STAR", "/": "FSLASH",
    "%": "PERCENT", "|": "BAR", "&": "AMPERSAND", "~": "TILDE", "^": "HAT", "<": "LESS", ">": "GREATER", "=": "EQUAL",
    "!": "EXCLAMATION", "?": "QUESTION", "(": "LPAREN", ")": "RPAREN", "[": "LBRACKET", "]": "RBRACKET", "{": "LCURLY", "}": "RCURLY",
    ".": "DOT", ",": "COMMA", ";": "SEMICOLON", ":": "COLON", "\\": "BSLASH", "'": "SQUOTE", '"': "DQUOTE",
}  # fmt: skip
_LEX = re.compile(
    rf"""(?P<ID>[A-Za-z_$][\w$]*)
    |(?P<WS>[ \t\f\v]+|\n)
    |(?P<INTEGER>(?:0[xX][0-9a-fA-F]+|\d+)(?:[uU][lL]?|[lL][uU]?)?(?![\w.]))
    |(?P<FLOAT>\.?\d(?:[eEpP][+-]|[\w.])*)
    |(?P<STRING>"(?:[^\\\n"]|\\(?:.|\n))*")
    |(?P<CHAR>'(?:[^\\\n']|\\(?:.|\n))*')
    |(?P<COMMENT1>/\*(?:.|\n)*?\*/)
    |(?P<COMMENT2>//[^\n]*)
    |(?P<LINECONT>\\[ \t]*\n)
    |(?P<op>{"|".join(map(re.escape, _OPERATORS))})
    |(?P<other>.)""",
    re.VERBOSE,
)
_TYPES = {name: f"CPP_{name}" for name in (*_OPERATORS.values(), *_LEX.groupindex) if name not in ("op", "other")}
_NUMBER = ("CPP_INTEGER", "CPP_FLOAT")


class PreprocessorToken(LexToken):  # type: ignore[misc]
    """A token that copies in a tenth of the time: pcpp copies every token of every expansion."""

    def __copy__(self) -> PreprocessorToken:
        copy = object.__new__(PreprocessorToken)
        copy.__dict__.update(self.__dict__)
        return copy


class Lexer:
    """The interface that pcpp expects of a lexer: ``input``, ``token``, ``clone`` and ``lineno``."""

    def __init__(self) -> None:
        self.lineno = 1
        self.input("")

    def clone(self) -> Lexer:
        """A new lexer without input."""
        return Lexer()

    def input(self, text: str) -> None:
        """Start reading ``text``."""
        self._found = _LEX.finditer(text)

    def token(self) -> Any:
        """The next token, or None after the last."""
        match = next(self._found, None)
        if match is None:
            return None
        kind, value = str(match.lastgroup), match.group()
        token = PreprocessorToken()
        token.lineno, token.lexpos = self.lineno, match.start()
        if kind == "op":
            token.type, token.value = _TYPES[_OPERATORS[value]], value
            return token
        if kind not in ("ID", "INTEGER", "FLOAT"):
            self.lineno += value.count("\n")
            if kind == "LINECONT":
                value = value[1:-1] or " "
            elif kind == "STRING":
                value = re.sub(r"\\[ \t]*\n", "", value)
        token.type, token.value = _TYPES.get(kind, value), value
        return token


def parted(before: Any, token: Any) -> bool:
    """Whether two tokens that an expansion places side by side need a blank between them, since they would otherwise be read as others."""
    if before.type in _NUMBER and token.value[0] in "+-.":
        return token.value[0] == "." or before.value[-1] in "eEpP"
    return _joins(before.value[-1] if before.type not in _OPERATOR_TYPES else before.value, token.value[0])


_OPERATOR_TYPES = frozenset(f"CPP_{name}" for name in _OPERATORS.values())


@cache
def _joins(before: str, first: str) -> bool:
    return before + first in _OPERATORS or (re.fullmatch(r"[\w$][\w$]", before + first) is not None) or before + first in ("//", "/*")
