"""The table of added lines says what the programs have, and the programs prune."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
RECORD = json.loads((ROOT / "results" / "added-lines.json").read_text())["rows"]
TABLE = {
    "your own loop": "own_loop_gates",
    "transformers": "transformers_gates",
    "Lightning": "lightning_gates",
    "`torch.nn.utils.prune`, your own loop": "own_loop_torch_prune",
    "Lightning's `ModelPruning`": "lightning_model_pruning",
    "NNCF 3.4, by magnitude": "own_loop_nncf_magnitude",
    "NNCF 3.4, learned masks": "own_loop_nncf_learned",
}


def counting():
    spec = importlib.util.spec_from_file_location("added", ROOT / "benchmarks" / "added_lines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_how_tos_has_the_lines_of_the_programs():
    text = (ROOT / "docs" / "howto" / "index.md").read_text()
    printed = dict(re.findall(r"^\| ([^|]+) \| (\d+) \|", text, re.MULTILINE))
    added = counting().added
    assert printed == {name: str(len(added(route))) for name, route in TABLE.items()}
    assert {route: added(route) for route in TABLE.values()} == {
        route: row["added"] for route, row in RECORD.items()
    }


def test_what_the_programs_keep_is_what_the_table_says():
    asked = {"own_loop_nncf_learned": 1.0}  # as the table says, it removed nothing
    for route, row in RECORD.items():
        assert row["kept"] == pytest.approx(asked.get(route, 0.1), abs=0.01), route
    ours = [row["kept"] for route, row in RECORD.items() if route.endswith("_gates")]
    assert ours == [pytest.approx(0.1, abs=0.001)] * 3


@pytest.mark.slow
@pytest.mark.parametrize("route", [name for name in RECORD if "nncf" not in name])
def test_a_program_keeps_what_the_record_says(route):
    command = [sys.executable, str(ROOT / "benchmarks" / "lines" / f"{route}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert float(done.stdout.rsplit("kept", 1)[1]) == pytest.approx(RECORD[route]["kept"], abs=0.02)
