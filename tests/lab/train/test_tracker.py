"""Runs are logged by the real wandb, without its server, and by the real trackio, in a folder."""

import contextlib
import json
import sqlite3
import struct
import subprocess
import sys

import pytest

from sparsegate.cli import main
from sparsegate_lab.record import Record
from sparsegate_lab.train import Tracker, train
from sparsegate_lab.train.tracker import CURVES

PATIENCE = 300  # seconds
BLOCK, FULL, LAST = 32768, 1, 4


@pytest.fixture
def offline(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    return tmp_path


def wandb_history(folder):
    """The logged rows in the file that `wandb sync` would upload: a log as LevelDB writes it."""
    from wandb.proto.wandb_internal_pb2 import Record

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, at, whole, rows = path.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        if (left := BLOCK - at % BLOCK) < 7:
            at += left
        _, size, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (FULL, LAST):
            record, whole = Record.FromString(whole), b""
            items = record.history.item
            rows.append({(i.key or i.nested_key[0]): json.loads(i.value_json) for i in items})
    return [row for row in rows if row]


def trackio_history(folder):
    """The logged rows in trackio's database, by step."""
    (path,) = folder.glob("*.db")
    with contextlib.closing(sqlite3.connect(path)) as database:
        return database.execute("select step, metrics from metrics order by id").fetchall()


@pytest.mark.slow
def test_wandb_has_the_curves_of_the_record(small, offline):
    pytest.importorskip("wandb")
    run = small()
    record = train(run, folder=offline, watch=Tracker("wandb"))
    rows = wandb_history(offline / run.name)
    for epoch, row in zip(record.epochs, rows, strict=True):
        assert row["_step"] == epoch.epoch
        assert all(row[name] == pytest.approx(getattr(epoch, name)) for name in CURVES)
    assert rows[-1]["test"] == pytest.approx(record.test)


@pytest.mark.slow
def test_the_command_logs_the_curves_of_the_record_with_trackio(offline, digits):
    pytest.importorskip("trackio")
    words = ["lenet300", "--data", str(digits), "--epochs", "2", "--batch-size", "100"]
    words = [sys.executable, "-m", "sparsegate", "train", *words, "--track", "trackio"]
    subprocess.run([*words, "--folder", str(offline / "runs")], check=True, timeout=PATIENCE)
    (path,) = (offline / "runs").glob("*/record.json")
    record, rows = Record.load(path), trackio_history(offline / "trackio")
    points = {(step, *pair) for step, text in rows for pair in json.loads(text).items()}
    for epoch in record.epochs:
        for name in CURVES:
            assert (epoch.epoch, name, getattr(epoch, name)) in points
    assert (len(record.epochs), "test", record.test) in points


def test_a_service_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(ImportError, match=r"trackio is not installed.*sparsegate-lab\[trackio\]"):
        Tracker("trackio")


def test_a_tracker_that_never_began_can_be_closed():
    pytest.importorskip("wandb")
    Tracker("wandb").closed()


def test_the_command_names_its_services(capsys):
    assert main(["train", "lenet300", "--track", "paper"]) != 0
    assert "wandb" in capsys.readouterr().err
