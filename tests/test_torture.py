"""The attacks find what is wrong: crashes, hangs, unnamed errors and unnoticed damage."""

import json
import os
import random
import time
from pathlib import Path

import pytest
from benchmarks.torture.attack import FAULT, Attack, refusal
from benchmarks.torture.attacks import ATTACKS
from benchmarks.torture.json_changes import changed_json
from benchmarks.torture.record import Tally, add_suite, write
from benchmarks.torture.sandbox import draw_of, outcomes
from benchmarks.torture.suites import run_suite

QUICK = ["sg", "sparse_safetensors", "safetensors", "idx", "cifar", "choices", "speed", "run"]


@pytest.mark.parametrize("name", QUICK)
def test_some_cases_of_an_attack_find_nothing(name, tmp_path):
    attack = ATTACKS[name]
    attack.prepare(tmp_path)
    found = {attack.attempt(draw_of(name, 0, number)) for number in range(40)}
    assert found <= {"refused", "accepted"}
    assert "refused" in found


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["networks", "sgn", "flips", "kills", "pairs", "disks", "commands"]
)
def test_a_slow_attack_finds_nothing(name, tmp_path):
    seen = []
    for _, outcome in outcomes(name, ATTACKS[name], 0, 0, 20):
        seen.append(outcome)
    assert seen
    assert not [outcome for outcome in seen if outcome.startswith(FAULT)]


class Bad(Attack):
    """Does everything wrong, case by case."""

    title = "a test"
    patience = 0.5

    def attempt(self, draw):
        kind = draw.choice(("crash", "hang", "leave", "raise", "fine"))
        if kind == "crash":
            os.kill(os.getpid(), 11)
        if kind == "hang":
            time.sleep(60)
        if kind == "leave":
            os._exit(3)
        if kind == "raise":
            raise KeyError("a name")
        return kind


def test_a_crash_a_hang_and_an_error_are_counted_and_the_next_case_follows():
    tally, numbers = Tally("a test"), []
    for number, outcome in outcomes("bad", Bad(), seed=1, first=0, seconds=60):
        numbers.append(number)
        tally.add(f"bad/1/{number}", outcome)
        if len(tally.counts) == 5:
            break
    assert numbers == list(range(len(numbers)))
    found = tally.to_json()
    assert set(found["outcomes"]) == {"fine"}
    assert sorted(found["faults"]) == [
        "KeyError in test_torture.py:attempt: 'a name'",
        "hangs for more than 0.5 s",
        "the process died of signal 11",
        "the process ended with status 3",
    ]


def test_a_case_is_a_function_of_its_seed_and_number():
    first, again, other = (draw_of("sg", 7, number).random() for number in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize("text", ["", "another file is bad", "{path} is bad\nin two lines"])
def test_an_error_must_be_one_line_that_names_the_file(text, tmp_path):
    error = ValueError(text.format(path=tmp_path))
    assert refusal(error, tmp_path).startswith(FAULT)
    assert refusal(ValueError(f"{tmp_path} is bad"), tmp_path) == "refused"


def test_counts_are_added_to_an_existing_record(tmp_path):
    path = tmp_path / "torture.json"
    for case, outcome in (
        ("a/1/0", "fine"),
        ("a/1/1", f"{FAULT}wrong"),
        ("a/1/2", f"{FAULT}wrong"),
    ):
        tally = Tally("title")
        tally.add(case, outcome)
        write(path, {"a": tally}, {"seed": 1}, add=True)
    found = json.loads(path.read_text())["attacks"]["a"]
    assert (found["tried"], found["outcomes"]) == (3, {"fine": 1})
    assert found["faults"] == {"wrong": {"count": 2, "case": "a/1/1"}}


@pytest.mark.slow
def test_several_processes_make_one_record(tmp_path, python):
    words = ["--jobs", "2", "--minutes", "0.02", "--only", "idx", "--seed", "5"]
    ended = python("-m", "benchmarks.torture", *words, "--results", str(tmp_path))
    assert not ended.returncode, ended.stderr
    found = json.loads((tmp_path / "torture.json").read_text())
    assert sorted(run["seed"] for run in found["runs"]) == [5, 6]
    assert found["attacks"]["idx"]["tried"] > 1
    assert not found["attacks"]["idx"]["faults"]


def test_a_suite_with_a_fresh_seed_is_added_to_the_record(tmp_path):
    tests = tmp_path / "test_some.py"
    tests.write_text("def test_a():\n    pass\n\n\ndef test_b():\n    assert False\n")
    suite = run_suite(7, 0, ["--noconftest", "-p", "no:cacheprovider", str(tests)])
    for _ in range(2):
        add_suite(tmp_path / "torture.json", suite)
    first, second = json.loads((tmp_path / "torture.json").read_text())["suites"]
    assert first == second
    assert (first["seed"], first["status"], len(first["failed"])) == (7, 1, 1)
    assert first["failed"][0].endswith("test_some.py::test_b")
    assert "1 failed, 1 passed" in first["summary"]
    assert first["kind"] == "all tests"


def test_tests_that_draw_no_random_numbers_are_left_out(tmp_path):
    tests = tmp_path / "test_some.py"
    draws = "import torch\n\n\ndef test_draws():\n    torch.rand(1)\n"
    tests.write_text(f"{draws}\n\ndef test_draws_nothing():\n    pass\n")
    hooks = Path(__file__).parents[1] / "conftest.py"
    (tmp_path / "conftest.py").write_text(hooks.read_text())
    words = ["--rootdir", str(tmp_path), "-c", os.devnull, "-o", "cache_dir=seen", str(tests)]
    whole, part = (run_suite(7, 0, words, draws=draws) for draws in (False, True))
    assert "2 passed" in whole["summary"]
    assert "1 passed, 1 deselected" in part["summary"]
    assert part["kind"] == "tests that draw random numbers"


def test_damaged_json_differs_from_the_file_it_was_made_of():
    draw, text = random.Random(0), json.dumps({"a": [1, {"b": None}], "c": "text"})
    made = [changed_json(draw, text) for _ in range(200)]
    assert sum(each.decode(errors="replace") != text for each in made) > 180
