"""Counts lines, statements, modules and names of the packages, at any commits: the figures of docs/decisions/0010.

python benchmarks/tree_figures.py 63064b3 HEAD --out results/tree-figures.json
python benchmarks/tree_figures.py HEAD --list     also lists the modules and the names that were counted
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import shlex
import subprocess
import sys
import tarfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WIDTH = 100


@dataclass(frozen=True)
class Module:
    """One Python file of the packages."""

    name: str
    """Its import path."""
    package: str
    """`runtime`, `library` or `lab`; a tree without packages is one library."""
    is_door: bool
    text: str

    @property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        return self.name if self.is_door else self.name.rpartition(".")[0]


def python_files(revision: str) -> dict[str, str]:
    """The text of each Python file at a commit, by path."""
    packed = subprocess.run(["git", "archive", revision], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {
            member.name: archive.extractfile(member).read().decode()  # type: ignore[union-attr]
            for member in archive
            if member.isfile() and member.name.endswith(".py")
        }


def modules(files: dict[str, str]) -> list[Module]:
    """The modules that packages install, without setup files."""
    found = []
    for path, text in sorted(files.items()):
        parts = Path(path).with_suffix("").parts
        if parts[0] == "packages" and len(parts) > 3:
            package, parts = parts[1], parts[2:]
        elif parts[0] == "src":
            package, parts = "library", parts[1:]
        else:
            continue
        is_door = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_door else parts)
        found.append(Module(name, package, is_door, text))
    return found


def num_statements(tree: ast.AST) -> int:
    """Statements that are no docstring."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in ast.walk(tree)
    )


def readers(found: list[Module]) -> dict[str, set[str]]:
    """The modules that import each module."""
    names = {module.name for module in found}
    readers: dict[str, set[str]] = defaultdict(set)
    for module in found:
        for node in ast.walk(module.tree):
            for name in _imported(node, module, names):
                if name != module.name:
                    readers[name].add(module.name)
    return readers


def _imported(node: ast.AST, module: Module, names: set[str]) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names if each.name in names]
    if not isinstance(node, ast.ImportFrom):
        return []
    start = module.room.split(".")
    prefix = start[: len(start) - node.level + 1] if node.level else []
    source = ".".join([*prefix, *((node.module or "").split(".") if node.module else [])])
    inside = [f"{source}.{each.name}" for each in node.names if f"{source}.{each.name}" in names]
    return inside or ([source] if source in names else [])


def repeated(found: list[Module]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Class names and module names that occur more than once, each with the modules."""
    classes: dict[str, list[str]] = defaultdict(list)
    stems: dict[str, list[str]] = defaultdict(list)
    for module in found:
        if not module.is_door:
            stems[module.name.rpartition(".")[2]].append(module.name)
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(module.name)
    return tuple(
        {name: at for name, at in each.items() if len(at) > 1} for each in (classes, stems)
    )  # type: ignore[return-value]


def packed_calls(tree: ast.AST) -> int:
    """Calls such as f(*(a, b, c))."""
    return sum(
        isinstance(argument, ast.Starred) and isinstance(argument.value, ast.Tuple | ast.List)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for argument in node.args
    )


def figures(revision: str, *, show: bool) -> dict[str, Any]:
    """Everything that is counted at one commit."""
    files = python_files(revision)
    found = modules(files)
    lab = [module for module in found if module.package == "lab"]
    rest = [module for module in found if module.package != "lab"]
    read_by = readers(found)
    doors = {module.name for module in found if module.is_door}
    once = {
        module.name: next(iter(read_by[module.name]))
        for module in found
        if not module.is_door and len(read_by[module.name]) == 1
    }
    inner = {name: reader for name, reader in once.items() if reader not in doors}
    classes, stems = repeated(found)
    if show:
        _show(found, inner, classes, stems)
    hashed = subprocess.run(["git", "rev-parse", revision], capture_output=True, check=True)
    return {
        "commit": hashed.stdout.decode().strip(),
        "library_lines": sum(module.text.count("\n") for module in rest),
        "library_statements": sum(num_statements(module.tree) for module in rest),
        "lab_lines": sum(module.text.count("\n") for module in lab),
        "lab_statements": sum(num_statements(module.tree) for module in lab),
        "tree_lines": sum(text.count("\n") for text in files.values()),
        "modules": len(found),
        "long_lines": sum(
            len(line) > WIDTH for module in found for line in module.text.splitlines()
        ),
        "packed_calls": sum(packed_calls(module.tree) for module in found),
        "modules_read_once": len(once),
        "of_these_not_by_a_door": len(inner),
        "class_names_repeated": len(classes),
        "module_names_repeated": len(stems),
    }


def _show(
    found: list[Module],
    inner: dict[str, str],
    classes: dict[str, list[str]],
    stems: dict[str, list[str]],
) -> None:
    lines = {module.name: module.text.count("\n") for module in found}
    print("Modules that one other module imports, which is no door:")
    for name, reader in sorted(inner.items(), key=lambda item: lines[item[0]]):
        print(f"  {lines[name]:4} {name}  <- {lines[reader]} {reader}")
    for title, names in (("Class names", classes), ("Module names", stems)):
        print(f"{title} that occur more than once:")
        for name, places in sorted(names.items()):
            print(f"  {name}: {', '.join(places)}")


def main() -> None:
    """Prints the figures, and writes them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revisions", nargs="+", help="commits, such as HEAD")
    parser.add_argument("--list", action="store_true", help="list modules and names as well")
    parser.add_argument("--out", type=Path, help="file for the record (JSON)")
    options = parser.parse_args()
    rows = [figures(revision, show=options.list) for revision in options.revisions]
    for name in rows[0]:
        print(f"{name:24}", *(f"{str(row[name])[:10]:>12}" for row in rows))
    if options.out:
        record = {
            "title": "Lines, statements, modules and names of the packages",
            "command": shlex.join(["python", "benchmarks/tree_figures.py", *sys.argv[1:]]),
            "rows": rows,
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
