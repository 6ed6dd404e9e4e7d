"""Trials that other tuners' results save: what they know becomes first trials of replayed searches, and is counted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from portatile.cli import main
from portatile.records import canonical, to_json
from portatile.studies import foreign_starts
from portatile.studies.foreign_starts import WITH, WITHOUT
from portatile.trials import Trial
from support.recordings import recorded, recording
from support.trials import DEVICE

pytestmark = pytest.mark.usefixtures("own_directories")
ELSEWHERE = replace(DEVICE, id="recorded:other", name="another device")


def test_searches_without_and_with_what_others_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    searched, known = tmp_path / "searched.json", tmp_path / "known.json"
    searched.write_bytes(to_json(recorded()))
    known.write_bytes(to_json(recorded(device=ELSEWHERE)))  # as fast there: the first trial is the optimum
    asked = ["study", "foreign-starts", str(searched), "--known", str(known), "--repeats", "4", "--budget", "30", "--strategy", "random"]
    assert main([*asked, "-o", str(tmp_path / "saved.svg"), "-o", str(tmp_path / "saved.csv"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    last = {row["search"]: row for row in rows if row["place"] == 30}
    assert last[WITH]["to_95"] == 1
    assert last[WITH]["at_once"] == 1
    assert last[WITHOUT]["to_95"] is None or last[WITHOUT]["to_95"] > 1
    assert last[WITH]["saved"] is None or last[WITH]["saved"] == last[WITHOUT]["to_95"] - 1
    assert "with what others found" in (tmp_path / "saved.svg").read_text()
    assert (tmp_path / "saved.csv").read_text().count("\n") == len(rows) + 1
    assert main(["study", "foreign-starts", str(searched)]) == 2


def test_starts_are_recorded_configurations_near_the_fastest(tmp_path: Path) -> None:
    """Of configurations that were not recorded here the nearest, of none twice, and none of the recording itself."""
    mine = recording()
    path = tmp_path / "known.json"
    fast = [replace(trial, config={**trial.config, "WIDTH": 64}) for trial in recorded(device=ELSEWHERE) if trial.config["WIDTH"] == 32]
    path.write_bytes(to_json(fast))
    result = foreign_starts.starts_of(mine, [path], 3)
    assert len(result) == 0 or all(canonical(config) in mine.table() for config in result)
    path.write_bytes(to_json(recorded(device=ELSEWHERE)))
    result = foreign_starts.starts_of(mine, [path], 3)
    assert len({canonical(config) for config in result}) == 3
    path.write_bytes(to_json(recorded()))
    assert foreign_starts.starts_of(mine, [path], 3) == ()
    another = [replace(trial, config={"WIDTH": 32, "A": 1, "B": 2, "C": 3}) for trial in recorded(device=ELSEWHERE)[:2]]
    path.write_bytes(to_json(another))
    assert foreign_starts.starts_of(mine, [path], 3) == (), "another kernel's with one name in common"


def test_of_several_files_what_is_fast_in_all_goes_first(tmp_path: Path) -> None:
    """Two devices with their own favourites agree on a third: neither's fastest is suggested first."""
    mine, everything = recording(), recorded()
    paths = []
    for place, favourite in enumerate(("6-8", "2-1")):
        path = tmp_path / f"{place}.json"
        device = replace(ELSEWHERE, id=f"recorded:{place}", name=f"device {place}")
        times = {favourite: 1e-3, "6-4": 1.1e-3}
        paths.append(path)
        path.write_bytes(to_json([_timed(replace(trial, device=device), times) for trial in everything]))
    first, *_ = foreign_starts.starts_of(mine, paths, 3)
    assert (first["TILE"], first["WIDTH"]) == (6, 4)
    alone, *_ = foreign_starts.starts_of(mine, paths[1:], 3)
    assert (alone["TILE"], alone["WIDTH"]) == (2, 1)


def _timed(trial: Trial, times: dict[str, float]) -> Trial:
    seconds = times.get(f"{trial.config['TILE']}-{trial.config['WIDTH']}", 9e-3)
    return replace(trial, status="ok", samples=(seconds, seconds, seconds))
