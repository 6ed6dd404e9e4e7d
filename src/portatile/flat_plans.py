"""Flat plans: every call of another problem is replaced by its launches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from portatile.records import Arg, Call, Launch, Plan, Problem, Source, Temporary


def flatten(plan: Plan, resolve: Callable[[Problem], Plan]) -> Plan:
    """The plan with every Call replaced by the launches of the plan that ``resolve`` finds for it.

    Calls run one after another, so their temporaries share memory: each index in the list holds the largest temporary that any call needs
    there.
    """
    steps: list[Launch] = []
    shared: dict[str, Temporary] = {}
    for step in plan.steps:
        if isinstance(step, Launch):
            steps.append(step)
            continue
        callee = flatten(resolve(step.problem), resolve)
        names = dict(step.operands)
        for place, temporary in enumerate(callee.temporaries):
            names[temporary.name] = _share(temporary, place, shared)
        steps.extend(_bind_call(launch, step, names) for launch in callee.steps if isinstance(launch, Launch))
    return Plan(tuple(steps), (*plan.temporaries, *shared.values()))


def _share(temporary: Temporary, place: int, shared: dict[str, Temporary]) -> str:
    """The name in the caller of a callee's temporary."""
    if temporary.kind == "image":
        name = f"call/{temporary.width}x{temporary.height}x{temporary.channels}:{temporary.dtype}/{place}"
    else:
        name = f"call/{temporary.nbytes} bytes/{place}" if temporary.exact else f"call/{'zeros/' * temporary.zeroed}{place}"
    known = shared.get(name)
    if known is None or known.nbytes < temporary.nbytes:
        shared[name] = replace(temporary, name=name)
    return name


def _bind_call(launch: Launch, call: Call, names: Mapping[str, str]) -> Launch:
    """A callee's launch with the caller's names of operands, temporaries and scalars."""

    def bind(arg: Arg) -> Arg:
        if arg.kind in ("buffer", "image", "view", "tensor_map"):
            return replace(arg, name=names[arg.name])
        if arg.kind == "scalar" and arg.value is None:
            value = call.scalars[arg.name]
            return replace(arg, name=value) if isinstance(value, str) else replace(arg, value=value)
        return arg

    return msgspec.structs.replace(launch, args=tuple(bind(arg) for arg in launch.args))


def sources(plan: Plan) -> Sequence[Source]:
    """The distinct kernel texts of a flat plan, in the order of their first use."""
    return list(dict.fromkeys(step.source for step in plan.steps if isinstance(step, Launch)))
