"""pcpp with macro expansion in linear time; pcpp's own takes time quadratic in the length of the text."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

from pcpp import Preprocessor

from portatile.dialect.lexer import Lexer

_NOWHERE: frozenset[str] = frozenset()
_NO_MACROS = frozenset({"__LINE__", "__COUNTER__"})  # names that are replaced although they are not macros


class LinearPreprocessor(Preprocessor):  # type: ignore[misc]
    """Gives the same results as pcpp. Unread tokens are kept on a stack, so that an expansion neither moves nor copies the tokens after it.

    A token records the macros that it came from (``expanded_from``), which are not expanded in it again.
    """

    def __init__(self) -> None:
        super().__init__(Lexer())

    def group_lines(self, input: str, abssource: Any) -> Iterator[list[Any]]:
        """The tokens of each line, including the newline, which alone ends a line."""
        lexer, line = self.lexer.clone(), []
        lexer.input("\n".join(part.rstrip() for part in f"{input}\n".split("\n")[:-1]) + "\n")
        while token := lexer.token():
            token.source = abssource
            line.append(token)
            if token.value == "\n":
                yield line
                line = []

    def define(self, tokens: Any) -> None:
        """Define a macro; also ``#define NEGATIVE-1``, which C reads as if there were a blank before the sign."""
        if not isinstance(tokens, str) and len(tokens) > 1 and tokens[1].type not in self.t_WS and tokens[1].value != "(":
            blank = copy.copy(tokens[1])
            blank.type, blank.value = self.t_SPACE, " "
            tokens = [tokens[0], blank, *tokens[1:]]
        super().define(tokens)

    def expand_macros(self, tokens: list[Any], expanding_from: Sequence[str] = ()) -> list[Any]:
        """Expand every macro in ``tokens``, in place, and return ``tokens``."""
        macros, name_type = self.macros, self.t_ID
        if not any(t.type == name_type and (t.value in macros or t.value in _NO_MACROS) for t in tokens):
            return tokens
        stack, done, blocked = tokens[::-1], [], set(expanding_from)
        while stack:
            token = stack.pop()
            if token.type != name_type:
                done.append(token)
                continue
            if self.linemacrodepth == 0:
                self.linemacro = token.lineno
            name = token.value
            if name in macros and name not in blocked and name not in getattr(token, "expanded_from", _NOWHERE):
                self.linemacrodepth += 1
                try:
                    if not self._expand(token, stack, done, expanding_from):
                        break
                finally:
                    self.linemacrodepth -= 1
                continue
            if name == "__LINE__" and self.expand_linemacro:
                token.type, token.value = self.t_INTEGER, self.t_INTEGER_TYPE(self.linemacro)
            elif name == "__COUNTER__" and self.expand_countermacro:
                token.type, token.value = self.t_INTEGER, self.t_INTEGER_TYPE(self.countermacro)
                self.countermacro += 1
            done.append(token)
        tokens[:] = done
        return tokens

    def _expand(self, token: Any, stack: list[Any], done: list[Any], expanding_from: Sequence[str]) -> bool:
        """Push the expansion of the macro ``token`` onto the stack; False if the rest of the tokens must stay as they are."""
        macro, inner = self.macros[token.value], [*expanding_from, token.value]
        if macro.arglist is None:
            self._push(stack, token, self.expand_macros([copy.copy(part) for part in macro.value], inner))
            return True
        at = len(stack) - 1
        while at >= 0 and (stack[at].type in self.t_WS or stack[at].type in self.t_COMMENT):
            at -= 1
        if at < 0 or stack[at].value != "(":  # the name of the macro alone
            done.append(token)
            done.extend(reversed(stack[at + 1 :]))
            del stack[at + 1 :]
            return True
        end, depth = at, 0
        while end >= 0:
            depth += {"(": 1, ")": -1}.get(stack[end].value, 0)
            if depth == 0:
                break
            end -= 1
        if end < 0:  # never closed
            done.append(token)
            done.extend(reversed(stack))
            stack.clear()
            return False
        call = stack[end : at + 1][::-1]
        args = self._arguments(token, macro, call)
        if args is None:
            done.append(token)
            done.extend(reversed(stack[end:]))
            del stack[end:]
            return True
        del stack[end:]
        expanded = self.expand_macros(self.macro_expand_args(macro, args), inner)
        if stack and stack[-1].type == self.t_ID:  # as GCC and Clang do
            blank = copy.copy(stack[-1])
            blank.type, blank.value = self.t_SPACE, " "
            stack.append(blank)
        self._push(stack, token, expanded)
        return True

    def _arguments(self, token: Any, macro: Any, call: list[Any]) -> list[Any] | None:
        """The arguments of a call in the form that the macro needs; None, after a call of ``on_error``, if they are too few or too many."""
        args: list[Any]
        _, args, positions = self.collect_args(call, True)
        count = len(macro.arglist)
        # A macro with at most one parameter may be called with nothing.
        if not macro.variadic and (args != [[]] or count > 1) and len(args) != count:
            self.on_error(token.source, token.lineno, f"macro {token.value} takes {count} arguments, not {len(args)}")
            return None
        if not macro.variadic:
            return [*args, *([] for _ in range(count - len(args)))]
        if len(args) < count - 1:
            self.on_error(token.source, token.lineno, f"macro {token.value} takes {count - 1} arguments or more, not {len(args)}")
            return None
        if len(args) == count - 1:
            return [*args, []]
        return [*args[: count - 1], call[positions[count - 1] : -1]]

    def _push(self, stack: list[Any], token: Any, expanded: list[Any]) -> None:
        source, line, name = token.source, token.lineno, {token.value}
        for part in expanded:
            part.source, part.lineno = source, line
            part.expanded_from = part.expanded_from | name if hasattr(part, "expanded_from") else frozenset(name)
        stack.extend(reversed(expanded))
