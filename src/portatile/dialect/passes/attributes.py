"""The attributes of a function that CUDA supports: work-group size, minimum of resident work-groups, cluster, inlining."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from portatile.dialect.places import Places
from portatile.dialect.tokens import Tokens
from portatile.errors import CompileError
from portatile.records import Size3

_CONSTANT_EXPRESSION = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.operator, ast.unaryop)


@dataclass
class Attributes:
    """The attributes read so far."""

    work_group: Size3 | None = None
    min_groups: int | None = None
    cluster_groups: int | None = None
    noinline: bool = False

    def read(self, tokens: Tokens, i: int, places: Places) -> None:
        """Read the ``__attribute__`` at ``i``; raises CompileError with file and line for arguments that are not numbers."""
        for j in range(i + 1, tokens.partner[i + 1]):
            word = tokens[j].text.strip("_")
            if word == "noinline":
                self.noinline = True
            elif word in ("reqd_work_group_size", "min_groups", "cluster_groups"):
                numbers = [_number(tokens, part, places) for part in tokens.split(j + 2, tokens.partner[j + 1])]
                if word == "min_groups" and len(numbers) == 1:
                    self.min_groups = numbers[0]
                elif word == "cluster_groups" and len(numbers) == 1:
                    self.cluster_groups = numbers[0]
                elif word == "reqd_work_group_size" and len(numbers) == 3 and min(numbers) > 0:
                    self.work_group = (numbers[0], numbers[1], numbers[2])
                else:
                    takes = "three positive numbers" if word == "reqd_work_group_size" else "one number"
                    raise CompileError(f"{places.at(tokens[j].line)}: {tokens[j].text} takes {takes}")


def _number(tokens: Tokens, part: range, places: Places) -> int:
    """The value of a constant integer expression."""
    text = " ".join(tokens[i].text.rstrip("uUlL") if tokens[i].kind == "number" else tokens[i].text for i in part)
    try:
        tree = ast.parse(text.replace("/", "//"), mode="eval")
        if all(isinstance(node, _CONSTANT_EXPRESSION) for node in ast.walk(tree)):
            return int(eval(compile(tree, "attribute", "eval"), {"__builtins__": {}}))
    except (SyntaxError, ValueError, TypeError, ArithmeticError):
        pass
    raise CompileError(f"{places.at(tokens[part.start].line)}: {text!r} is not a constant number")
