"""The rules of the house, where a linter has none."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "packages"
PACKAGES = [
    SOURCE / "runtime/sparsegate_runtime",
    SOURCE / "library/sparsegate",
    SOURCE / "lab/sparsegate_lab",
]
FILES = sorted(path for package in PACKAGES for path in package.rglob("*.py"))
DRAWERS = {"utils", "helpers", "misc", "common", "base", "tools", "other"}
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))


def functions(tree):
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@every_file
def test_a_file_is_one_concept_in_one_sentence(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring
    assert "\n" not in docstring.split("\n\n")[0]


@every_file
def test_a_file_is_short_and_so_are_its_functions(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 350
    assert [
        node.name for node in functions(ast.parse(text)) if node.end_lineno - node.lineno >= 80
    ] == []


@every_file
def test_no_call_takes_a_packed_tuple(path):
    starred = [
        argument.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        for argument in node.args
        if isinstance(argument, ast.Starred)
    ]
    assert not any(isinstance(value, ast.Tuple | ast.List) for value in starred)


@every_file
def test_nothing_below_the_command_prints(path):
    if "cli" not in path.parts and path.stem not in ("command", "run_command"):
        calls = [
            node.func
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        assert not any(isinstance(call, ast.Name) and call.id == "print" for call in calls)


@every_file
def test_nothing_is_unpickled_that_could_run_code(path):
    text = path.read_text()
    assert "pickle.load" not in text
    assert text.count("torch.load(") == len(
        re.findall(r"torch\.load\([^)]*weights_only=True\)", text)
    )


def test_there_are_no_drawers():
    assert [path for path in FILES if path.stem in DRAWERS] == []


def test_across_rooms_imports_go_through_the_door():
    rooms = {
        f"{package.name}.{path.parent.name}"
        for package in PACKAGES
        for path in package.glob("*/__init__.py")
    }
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                door, inside = (
                    ".".join((node.module or "").split(".")[:2]),
                    (node.module or "").split(".")[2:],
                )
                assert not (door in rooms and inside), (
                    f"{path.name} imports {node.module} past the room's door"
                )


def test_the_report_imports_no_torch():
    lab = PACKAGES[2]
    for path in [*(lab / "report").glob("*.py"), lab / "record.py", lab / "study.py"]:
        assert "torch" not in path.read_text().replace("PyTorch", "")
