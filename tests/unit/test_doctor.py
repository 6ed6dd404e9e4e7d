"""The doctor: what is broken is told with its remedy, a driver that crashes or hangs is survived, exit codes say it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from portatile import doctor, open_files, processes, settings
from portatile.cli.devices import command as devices_command
from portatile.cli.doctor import command as doctor_command
from portatile.device.backend import Finding
from portatile.doctor import Examination, SelfTest
from portatile.errors import DeviceNotFoundError, UsageError


def children(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let every child run ``code`` instead."""
    finished = processes.finished
    monkeypatch.setattr(processes, "finished", lambda command, seconds: finished([sys.executable, "-c", code], seconds))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os.abort()", "ended by SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("import time; time.sleep(600)", "no answer within"),
        ("raise SystemExit('the driver said no')", "ended with code 1: the driver said no"),
        ("print('{}')", ""),
    ],
)
def test_children_that_fail(monkeypatch: pytest.MonkeyPatch, code: str, message: str) -> None:
    children(monkeypatch, code)
    answer = doctor._child(("survey",), 1.0 if "sleep" in code else 120.0, doctor.SurveyFindings)
    if message:
        assert isinstance(answer, str)
        assert message in answer
    else:
        assert answer == doctor.SurveyFindings()


def test_crash_in_discovery_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    children(monkeypatch, "import os; os.abort()")
    examined = doctor.examine(120)
    assert not examined.healthy
    assert examined.devices == ()
    assert [f.subject for f in examined.findings if f.level == "broken"] == ["discovery"]


def test_no_device_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    children(monkeypatch, "print('{}')")
    examined = doctor.examine(120)
    assert any(f.level == "broken" and f.subject == "devices" and f.remedy for f in examined.findings)


def test_no_device_behind_what_is_broken_says_to_mend_that(monkeypatch: pytest.MonkeyPatch) -> None:
    children(
        monkeypatch, """print('{"findings": [{"level": "broken", "subject": "OpenCL", "detail": "no ld", "remedy": "install it"}]}')"""
    )
    lacking = next(finding for finding in doctor.examine(120).findings if finding.subject == "devices")
    assert lacking.remedy == "fix what is broken above"


def test_a_default_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(selector: str | None = None) -> None:
        raise DeviceNotFoundError("no device matches PORTATILE_DEVICE='abacus'")

    monkeypatch.setattr(doctor.device, "get", missing)
    (finding,) = doctor._selection()
    assert (finding.level, finding.subject) == ("broken", "default device")
    assert "abacus" in finding.detail
    assert "PORTATILE_DEVICE" in finding.remedy


def test_folders_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTATILE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path / "new" / "data"))
    levels = {f.subject: f for f in doctor._folders()}
    assert levels["cache folder"].level == "broken"
    assert "PORTATILE_CACHE_DIR" in levels["cache folder"].remedy
    assert levels["store folder"].level == "ok"
    assert not (tmp_path / "new").exists()


def test_store_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORTATILE_DATA_DIR", str(tmp_path))
    (tmp_path / "results.sqlite").write_bytes(b"this is no database, whatever its name says" * 100)
    levels = {f.subject: f for f in doctor._folders()}
    assert levels["result store"].level == "broken"
    assert levels["result store"].remedy


def test_missing_linker_is_told() -> None:
    """PoCL without ``ld`` would end the process at its first launch; it is not offered instead."""
    completed = subprocess.run(
        [sys.executable, "-m", "portatile.doctor", "survey"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PATH": "/nonexistent"},
    )
    document = json.loads(completed.stdout.splitlines()[-1])
    if not any("PoCL" in f["detail"] for f in document["findings"]):
        pytest.skip("PoCL is not installed")
    assert not any(info["platform"] == "Portable Computing Language" for info in document["devices"])
    assert any(f["level"] == "broken" and "'ld'" in f["detail"] and "binutils" in f["remedy"] for f in document["findings"])


@pytest.mark.parametrize("broken", [False, True])
def test_exit_code_and_text(monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    finding = Finding("broken" if broken else "absent", "CUDA [driver]", "cannot be used", "install it")
    monkeypatch.setattr(doctor, "examine", lambda seconds: Examination((), (finding,), {}))
    result = CliRunner().invoke(doctor_command, [], standalone_mode=False)
    assert result.return_value == int(broken)
    asked = CliRunner().invoke(doctor_command, ["--json"], standalone_mode=False)
    report = json.loads(asked.stdout)
    assert report["ok"] is not broken
    assert report["findings"][0]["remedy"] == "install it"


def test_failing_device_is_not_healthy() -> None:
    assert Examination((), (), {"opencl:0:0": SelfTest()}).healthy
    assert not Examination((), (), {"opencl:0:0": SelfTest("3 of 1000 results are wrong")}).healthy


def test_devices_as_json() -> None:
    listed = CliRunner().invoke(devices_command, ["--json"], standalone_mode=False)
    report = json.loads(listed.stdout)
    ids = [info["id"] for info in report["devices"]]
    assert len(set(ids)) == len(ids)
    assert report["default"] in [*ids, None]


def test_usage_of_the_child() -> None:
    assert doctor._main(["wrong"]) == 2


def test_too_few_open_files_are_named(monkeypatch: pytest.MonkeyPatch, own_directories: None) -> None:
    def refuse() -> None:
        raise UsageError("this process may open 12 files")

    monkeypatch.setattr(open_files, "check", refuse)
    examined = doctor.examine()
    assert ("broken", "open files", "this process may open 12 files") in [
        (finding.level, finding.subject, finding.detail) for finding in examined.findings
    ]
    assert not examined.healthy


def test_a_folder_that_cannot_be_written_is_not_called_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(doctor.settings, "full", lambda folder: True)
    assert "is full" in doctor._writable("cache folder", tmp_path, "PORTATILE_CACHE_DIR").detail
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse)
    finding = doctor._writable("cache folder", tmp_path, "PORTATILE_CACHE_DIR")
    assert finding.level == "broken"
    assert "Read-only file system" in finding.detail


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("PORTATILE_CEILINGS", "banana", "PORTATILE_CEILINGS='banana' is neither on nor off; write off, or unset it"),
        ("PORTATILE_MEMORY_LIMIT", "much", "is not a positive number of bytes"),
        ("PORTATILE_CACHEDIR", "/tmp", "PORTATILE_CACHEDIR is not read by anything; PORTATILE_CACHE_DIR is"),
    ],
)
def test_variables_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    children(monkeypatch, "print('{}')")
    monkeypatch.setenv(name, value)
    findings = [finding for finding in doctor.examine().findings if finding.subject == "variables"]
    assert [finding.level for finding in findings] == ["broken"]
    assert message in findings[0].detail


def test_without_a_readable_cache_size_only_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTATILE_CACHE_MAX_MB", "abc")
    examined = doctor.examine()
    assert not examined.healthy
    assert [finding.subject for finding in examined.findings] == ["variables"]


@pytest.mark.parametrize(("value", "on"), [("", True), ("On", True), ("1", True), ("off", False), ("FALSE", False), ("0", False)])
def test_switches(monkeypatch: pytest.MonkeyPatch, value: str, on: bool) -> None:
    monkeypatch.setenv("PORTATILE_TIME_UNTUNED", value)
    assert settings.times_untuned() == on
    monkeypatch.setenv("PORTATILE_DEBUG", value)
    assert settings.debug() == (on and value != "")


def test_the_page_has_every_variable() -> None:
    page = (Path(__file__).parents[2] / "docs/use/install.md").read_text().partition("## Variables")[2]
    assert [name for name in settings.VARIABLES if name not in page] == []
