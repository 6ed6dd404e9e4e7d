"""What notebooks are shown: tables as HTML with nothing of the caller's as markup, comma-separated values, progress in place."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import replace
from inspect import signature
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from portatile import notebooks
from portatile.errors import ArgumentError, UnknownNameError
from portatile.kernel.metrics import Metrics
from portatile.records import DeviceInfo, Problem
from portatile.select import Choice
from portatile.strategies import get, names
from portatile.trials import Trial
from portatile.tuning.search.deadlines import PhaseLimits
from portatile.tuning.search.request import TuningResult
from support.devices import CPU

PROBLEM = Problem("gemm", {"m": 8, "n": 9, "k": 1000}, "float32", {"trans_a": "N"}, {})


def trial(seconds: float | None, device: DeviceInfo = CPU, **config: Any) -> Trial:
    if seconds is None:
        return Trial(PROBLEM, config, device, "hash", "compile", message="line 1: <b>unknown</b>, and a comma")
    return Trial(PROBLEM, config, device, "hash", "ok", (seconds,) * 3, error=0.25)


TRIALS = (trial(4e-3, A=1, B=2), trial(None, A=3, B=2), trial(1e-3, A=2, B=2), trial(2e-3, A=4, B=2))
RESULT = TuningResult(PROBLEM, CPU, TRIALS, TRIALS[2], TRIALS[0], "budget", 1.5)


def test_a_result_in_a_few_lines() -> None:
    lines = str(RESULT).splitlines()
    assert len(lines) == 6
    assert lines[1].split() == ["winner", "1", "ms", "0.144", "Gflop/s", "4.00", "x", "A=2", "B=2"]
    assert lines[2].startswith("default  4 ms")
    assert lines[3] == "4 configurations in 1.5 s, failed: 1 compile"
    assert lines[4] == "  compile: line 1: <b>unknown</b>, and a comma"
    assert lines[5] == "    the first: A=3"
    assert "\n" not in repr(RESULT)


def test_failures_that_have_a_value_in_common_are_said_to() -> None:
    failed = (trial(None, A=1, B=3), trial(None, A=2, B=3))
    assert replace(RESULT, trials=(*TRIALS, *failed)).failure_lines[1] == "    the first: A=3", "one of B=2 fails too"
    alone = replace(RESULT, trials=(TRIALS[0], *failed))
    assert alone.failure_lines[1] == "    all 2 have B=3, which no valid one has"


def test_a_result_as_html() -> None:
    shown = RESULT._repr_html_()
    assert shown.count("<tr>") == 4, "a head, and the valid trials"
    assert "<th>A</th>" in shown
    assert "<th>B</th>" not in shown, "equal in all"
    assert "4.00 x" in shown


def test_a_result_as_comma_separated_values(tmp_path: Path) -> None:
    text = RESULT.to_csv(tmp_path / "trials.csv")
    assert (tmp_path / "trials.csv").read_text() == text
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["A"] for row in rows] == ["2", "4", "1", "3"], "the fastest first, failures last"
    assert [float(row["seconds"]) for row in rows[:3]] == [1e-3, 2e-3, 4e-3]
    assert rows[0]["samples"] == "3"
    assert rows[3]["message"] == "line 1: <b>unknown</b>, and a comma"
    assert rows[3]["seconds"] == ""


def test_trials_and_choices_in_a_few_lines() -> None:
    good, bad = TRIALS[2], TRIALS[1]
    assert str(good).splitlines()[1:] == ["1 ms, 3 samples", "A=2 B=2"]
    assert "failed (compile)" in repr(bad)
    assert "\n" not in repr(good)
    assert "&lt;b&gt;unknown" in bad._repr_html_()
    assert "<b>" not in bad._repr_html_()
    choice = Choice({"A": 2}, "tuned", "tuned for this problem", replace(good, time="2026"))
    assert str(choice).splitlines() == ["tuned: tuned for this problem", "A=2", f"1 ms for m=8 n=9 k=1000 trans_a=N on {CPU.id}, 2026"]
    assert "<th>A</th><td>2</td>" in choice._repr_html_()
    assert repr(choice) == "<tuned: A=2>"
    assert len(str(Choice({}, "default", "nothing near was tuned")).splitlines()) == 1


class Shell:
    """IPython as far as it is asked: the displays, and what each was given."""

    def __init__(self, kernel: object) -> None:
        self.shown: list[str] = []
        self.made = 0
        self.kernel = kernel

    def display(self, content: dict[str, str], raw: bool, display_id: bool) -> Shell:
        assert raw
        assert display_id
        self.made += 1
        self.update(content, raw)
        return self

    def update(self, content: dict[str, str], raw: bool) -> None:
        self.shown.append(content["text/html"])


def ipython(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("IPython")
    module.get_ipython = lambda: shell
    module.display = SimpleNamespace(display=shell.display)
    monkeypatch.setitem(sys.modules, "IPython", module)


def test_only_a_notebook_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not notebooks.inside()
    ipython(Shell(None), monkeypatch)
    assert not notebooks.inside(), "IPython in a terminal"
    ipython(Shell(object()), monkeypatch)
    assert notebooks.inside()


def test_progress_is_rewritten_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = Shell(object())
    ipython(shell, monkeypatch)
    clock = iter([0.0, 0.1, 0.3, 0.4, 9.0])
    monkeypatch.setattr(notebooks, "time", SimpleNamespace(monotonic=lambda: next(clock) + 100))
    progress = notebooks.NotebookProgress()
    for text in ("one", "too early", "two", "too early", "<three>"):
        progress(text)
    assert shell.made == 1
    assert shell.shown == ["<pre>one</pre>", "<pre>two</pre>", "<pre>&lt;three&gt;</pre>"]


def test_metrics_are_of_valid_trials() -> None:
    metrics = Metrics.of({"rate": "n / time", "twice": lambda A: 2 * A, "one": 1}, ["n", "A", "time"])
    assert metrics.of_trial({"n": 9, "A": 2}, TRIALS[2]) == {"rate": pytest.approx(9000), "twice": 4.0, "one": 1.0}
    assert metrics.of_trial({"n": 9, "A": 2}, TRIALS[1]) == {}
    with pytest.raises(UnknownNameError, match="elsewhere"):
        Metrics.of({"rate": "elsewhere / time"}, ["time"])
    with pytest.raises(ArgumentError, match="not a number"):
        Metrics.of({"text": lambda time: "much"}, ["time"]).of_trial({}, TRIALS[2])
    with pytest.raises(ArgumentError, match="cannot be computed"):
        Metrics.of({"rate": "1 / (time - time)"}, ["time"]).of_trial({}, TRIALS[2])


def test_strategies_take_their_options() -> None:
    assert get("genetic", {"population": 4}) is not get("genetic")
    with pytest.raises(UnknownNameError, match=r"option of the strategy genetic 'populatoin'. Did you mean 'population'"):
        get("genetic", {"populatoin": 4})
    for wrong in (0, -1, 2.5, True, "4", float("inf")):
        with pytest.raises(ArgumentError, match="positive whole number"):
            get("genetic", {"population": wrong})  # type: ignore[dict-item]
    with pytest.raises(UnknownNameError, match="Known: none"):
        get("random", {"anything": 1})
    for name in names():
        options = {
            parameter.name: parameter.default
            for parameter in signature(get(name)).parameters.values()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        assert callable(get(name, options)), "the defaults are options that do"


def test_a_timeout_bounds_each_phase() -> None:
    limits = PhaseLimits.running(2.5)
    assert (limits.launch, limits.run) == (2.5, 2.5)
    assert limits.compile > 2.5, "compilers take their time"
    assert limits.within(60.0).run == 2.5
    for wrong in (0, -1.0, float("nan"), float("inf"), "2", True):
        with pytest.raises(ArgumentError, match="timeout="):
            PhaseLimits.running(wrong)  # type: ignore[arg-type]
