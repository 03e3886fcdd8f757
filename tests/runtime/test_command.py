"""The command finds verbs of installed packages, and explains what it cannot do in one line."""

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from sparsegate_runtime.command import GROUP, OURS, PACKAGES, main
from sparsegate_runtime.version import VERSION

RUNTIME = Path(__file__).parents[2] / "packages" / "runtime"
CALL = "import sys; from sparsegate_runtime.command import main; sys.exit(main(sys.argv[1:]))"
SLEEPY = """
import sys, time
print("importing", flush=True)
time.sleep(60)
"""


def said(capsys, *words):
    """The exit code of the command, and what it wrote to stdout and stderr."""
    try:
        code = main(list(words))
    except SystemExit as end:  # as sys.exit(main()) would end
        code = end.code
    return code, *capsys.readouterr()


def assert_one_line(error, *expected):
    assert error.startswith("sparsegate: error: ")
    assert error.count("\n") == 1
    assert all(word in error for word in expected), error


@pytest.fixture
def package(tmp_path):
    """A package with a verb, `extra`, whose module takes a minute to import."""
    about = tmp_path / "extra-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: extra\nSummary: One more verb\n")
    (about / "entry_points.txt").write_text(f"[{GROUP}]\nextra = extra_verb:main\n")
    (tmp_path / "extra_verb.py").write_text(SLEEPY)
    return tmp_path


def started(*words, path):
    """The command in a process that sees only the runtime and the packages of a folder."""
    return subprocess.Popen(
        [sys.executable, "-S", "-c", CALL, *words],
        env={**os.environ, "PYTHONPATH": f"{RUNTIME}:{path}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_version_is_printed(capsys):
    assert said(capsys, "--version") == (0, f"{VERSION}\n", "")


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_names_every_verb(word, capsys):
    code, out, error = said(capsys, word)
    assert (code, error) == (0, "")
    assert out.startswith("usage: sparsegate VERB")
    assert all(verb in out for verb in PACKAGES)


def test_no_words_at_all_show_the_usage_and_count_as_an_error(capsys):
    code, out, _ = said(capsys)
    assert code == 2
    assert out.startswith("usage: sparsegate VERB")


def test_an_unknown_verb_is_answered_with_the_known_ones(capsys):
    code, out, error = said(capsys, "trian")
    assert (code, out) == (2, "")
    assert_one_line(error, "unknown verb 'trian'", *PACKAGES)


def test_the_entry_points_of_our_packages_are_the_verbs_that_help_names():
    found = {entry.name: entry.dist.name for entry in entry_points(group=GROUP)}
    ours = {verb: name for verb, name in found.items() if name in OURS}
    assert ours == PACKAGES


@pytest.mark.parametrize("verb", PACKAGES)
def test_every_verb_explains_itself(verb, capsys):
    code, out, _ = said(capsys, verb, "--help")
    assert code == 0
    assert f"usage: sparsegate {verb}" in out


@pytest.mark.parametrize(
    ("verb", "package"), [("train", "sparsegate-lab"), ("bench", "sparsegate")]
)
def test_a_verb_of_a_package_that_is_missing_says_what_to_install(verb, package, tmp_path):
    with started(verb, "lenet5", path=tmp_path) as process:
        out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert_one_line(error, f"{verb} is part of {package}: pip install {package}")


def test_help_shows_the_verb_of_another_package_and_what_is_missing(package):
    with started("--help", path=package) as process:
        out, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    assert "  extra      from extra: One more verb\n" in out
    assert out.count("(pip install sparsegate-lab)") == len(OURS["sparsegate-lab"])


def test_ctrl_c_during_the_imports_is_one_line_and_exit_code_130(package):
    with started("extra", path=package) as process:
        assert process.stdout.readline() == "importing\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert_one_line(error, "interrupted before any work began")


def test_ctrl_c_before_the_verbs_are_known_is_one_line_and_exit_code_130(package):
    verbs = package / "extra-1.0.dist-info" / "entry_points.txt"
    verbs.unlink()
    os.mkfifo(verbs)  # whoever reads it waits
    with started("extra", path=package) as process, verbs.open("w"):  # opens when it is read
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert_one_line(error, "interrupted")


def test_the_module_and_its_exit_code_are_the_command(python):
    done = python("-m", "sparsegate", "trian")
    assert done.returncode == 2
    assert_one_line(done.stderr, "unknown verb")


def test_the_command_starts_without_torch(python):
    code = "import sys; from sparsegate_runtime.command import main; main(['--help'])"
    done = python(
        "-c", f"{code}; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    assert done.stdout.endswith("[]\n"), done.stderr
