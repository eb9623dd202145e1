"""Who may import whom, which third-party packages live where, and where printing happens: read from the sources.

A new package or module directly below ``hwmodel`` gets a line in ``RULES``.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hwmodel"


class Rule(NamedTuple):
    """What a package may import: packages of hwmodel, and third parties."""

    inside: str
    outside: str = ""


RULES: dict[str, Rule] = {
    # the bottom: knows nobody
    "errors": Rule(""),
    "quantities": Rule(""),
    "placing": Rule("errors"),
    "numerics": Rule("errors quantities", "numpy numba"),
    "neuron_mx": Rule("errors quantities numerics", "numpy"),
    # what is run
    "program": Rule("errors quantities numerics"),
    "trace": Rule("errors program"),
    "sim": Rule("errors program trace", "simpy"),
    "units": Rule("errors quantities numerics neuron_mx program trace", "numpy pydantic"),
    "arch": Rule("errors quantities numerics units", "pydantic"),
    "machine": Rule("errors arch program sim trace units"),
    # what is asked
    "problem": Rule("errors numerics program units", "pydantic"),
    "inputs": Rule("errors numerics neuron_mx units", "numpy pydantic"),
    "tiling": Rule("errors quantities numerics neuron_mx arch inputs problem program units", "numpy pydantic"),
    "config": Rule("errors numerics arch placing problem scenario units", "pydantic yaml"),
    "scenario": Rule("__version__ errors numerics arch config inputs listing problem tiling units", "pydantic"),
    "listing": Rule(
        "errors quantities numerics neuron_mx arch config inputs machine problem program result scenario tiling trace "
        "units verdict",
        "numpy pydantic",
    ),
    # what comes out
    "analysis": Rule("errors quantities numerics arch program trace", "numpy"),
    "reference": Rule("errors numerics inputs problem", "numpy"),
    "result": Rule("errors numerics analysis arch program runs scenario trace", "numpy ml_dtypes"),
    "experiment": Rule(
        "__version__ errors numerics inputs listing machine problem program quantising reference result scenario sim "
        "tiling units verdict",
        "numpy",
    ),
    "quantising": Rule("errors numerics neuron_mx inputs problem reference result scenario units verdict"),
    "verdict": Rule("result", "numpy"),
    "runs": Rule("__version__ errors config experiment result scenario writers"),
    "explain": Rule(
        "errors quantities analysis arch config experiment machine problem program result scenario tiling trace"
    ),
    "study": Rule(
        "errors quantities numerics analysis arch config engines experiment machine placing problem program result "
        "runs scenario tiling trace validation writers",
        "numpy optuna polars matplotlib",
    ),
    "engines": Rule("errors", "distributed dask"),
    "validation": Rule(
        "__version__ errors quantities arch config engines experiment problem scenario study tiling",
        "numpy scipy matplotlib",
    ),
    "writers": Rule(
        "errors quantities numerics analysis arch explain placing program result study trace",
        "numpy matplotlib PIL polars",
    ),
    # the top
    "cli": Rule(
        "__version__ errors numerics config engines experiment explain listing placing result runs scenario study "
        "tiling units validation writers",
        "typer click rich pydantic",
    ),
    "__init__": Rule("errors experiment result scenario study runs"),
    "__main__": Rule("cli"),
}

ONLY_HERE = {
    "simpy": "sim",
    "numba": "numerics",
    "yaml": "config",
    "typer": "cli",
    "rich": "cli",
    "ml_dtypes": "result",
    "optuna": "study",
}
ENDS_WORKERS = {"engines/local.py"}


class Import(NamedTuple):
    """One imported module: by which file, whether while modules are loaded, not in a function or for types only."""

    file: str
    package: str
    module: str
    at_load: bool


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports() -> Iterator[Import]:
    for path in sources():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        relative = path.relative_to(PACKAGE)
        package = relative.parts[0].removesuffix(".py")
        for node, at_load in _walk(tree, True):
            for module in _modules(node):
                yield Import(relative.as_posix(), package, module, at_load)


def _walk(node: ast.AST, at_load: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        inner = at_load and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            inner = False
        yield child, at_load
        yield from _walk(child, inner)


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide who imports whom"
        whole = str(node.module)
        inner = [f"{whole}.{alias.name}" for alias in node.names]
        return inner if whole == "hwmodel" else list(dict.fromkeys(m if _is_module(m) else whole for m in inner))
    return []


def _is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


FOUND = list(imports())


def own(entry: Import) -> str | None:
    """Package of hwmodel that is imported; None for others."""
    parts = entry.module.split(".")
    return parts[1] if parts[0] == "hwmodel" else None


def test_every_package_has_a_rule_and_every_rule_a_package() -> None:
    there = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in sources()}
    assert there == set(RULES)


@pytest.mark.parametrize("package", RULES)
def test_a_package_imports_only_what_it_may(package: str) -> None:
    rule = RULES[package]
    inside, outside = set(rule.inside.split()), set(rule.outside.split())
    for entry in FOUND:
        if entry.package != package:
            continue
        name, top = own(entry), entry.module.split(".")[0]
        if name is not None:
            assert name == package or name in inside, f"{entry.file} imports {entry.module}"
        elif top not in sys.stdlib_module_names:
            assert top in outside, f"{entry.file} imports {entry.module}"


def test_the_rules_are_no_wider_than_the_imports_of_third_parties() -> None:
    for package, rule in RULES.items():
        used = {entry.module.split(".")[0] for entry in FOUND if entry.package == package}
        assert set(rule.outside.split()) - used <= {"click", "dask", "matplotlib"}, package


@pytest.mark.parametrize(("module", "package"), ONLY_HERE.items())
def test_some_packages_live_in_one_place_c9(module: str, package: str) -> None:
    users = {entry.package for entry in FOUND if entry.module.split(".")[0] == module}
    assert users == {package}


def test_loading_goes_one_way() -> None:
    """No cycle among modules while they are loaded (imports in functions and for types only do not count)."""
    graph: dict[str, set[str]] = {}
    for entry in FOUND:
        if own(entry) is not None and entry.at_load:
            name = "hwmodel." + entry.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            graph.setdefault(name, set()).add(entry.module)
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"modules load each other: {' -> '.join(error.args[1])}")
    places = [order.index(f"hwmodel.{name}") for name in ("errors", "units.cube", "arch", "machine")]
    assert places == sorted(places)


def test_units_and_the_event_kernel_do_not_know_each_other_c3() -> None:
    assert not [entry for entry in FOUND if entry.package == "units" and own(entry) in ("sim", "machine")]
    assert not [entry for entry in FOUND if entry.package == "sim" and own(entry) in ("units", "machine", "numerics")]


def test_numerics_know_nobody_c3() -> None:
    assert {own(entry) for entry in FOUND if entry.package == "numerics"} - {None} <= {
        "numerics", "errors", "quantities",
    }  # fmt: skip


def _calls(path: Path) -> Iterator[tuple[str, int]]:
    """Names that are called, but for those of ``if __name__ == "__main__"``: a module may be run as a program."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    body = [node for node in tree.body if not (isinstance(node, ast.If) and "__main__" in ast.unparse(node.test))]
    for node in (inner for outer in body for inner in ast.walk(outer)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_library_never_prints_exits_or_changes_directory(path: Path) -> None:
    relative = path.relative_to(PACKAGE).as_posix()
    for name, line in _calls(path):
        where = f"{relative}:{line}: {name}"
        assert name not in ("os.chdir", "sys.exit", "exit", "quit"), where
        assert name != "os._exit" or relative in ENDS_WORKERS or relative.startswith("cli/"), where
        if not relative.startswith("cli/") and path.name != "__main__.py":
            assert name not in ("print", "sys.stdout.write", "sys.stderr.write"), where


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_errors_on_purpose_are_our_own(path: Path) -> None:
    """No bare ``raise Exception`` and no ``assert`` in place of a message to the user."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised = ast.unparse(node.exc).split("(")[0]
            assert raised not in ("Exception", "RuntimeError", "BaseException"), path
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"{path}: a bare except"


README = PACKAGE / "README.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def table() -> str:
    """The table of hwmodel/README.md: rules, and the first line of each docstring."""
    lines = ["", "", "| module | what it is | may import | and of others |", "| --- | --- | --- | --- |"]
    for name, rule in RULES.items():
        path = PACKAGE / name / "__init__.py"
        module = ast.parse((path if path.exists() else PACKAGE / f"{name}.py").read_text(encoding="utf-8"))
        what = (ast.get_docstring(module) or "").splitlines()[0].removesuffix(".")
        inside = ", ".join(name for name in rule.inside.split() if name != "__version__")
        lines.append(f"| `{name}` | {what} | {inside} | {', '.join(rule.outside.split())} |")
    return "\n".join([*lines, "", ""])


@pytest.fixture(scope="module", autouse=True)
def _rewrite(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-golden"):
        head, rest = README.read_text(encoding="utf-8").split(BEGIN)
        README.write_text(head + BEGIN + table() + END + rest.split(END)[1], encoding="utf-8")


def test_the_table_of_the_package_is_true() -> None:
    text = README.read_text(encoding="utf-8")
    stale = "pytest tests/test_architecture.py --rewrite-golden writes it"
    assert text.split(BEGIN)[1].split(END)[0] == table(), stale


def test_no_file_is_long() -> None:
    for path in sources():
        count = len(path.read_text(encoding="utf-8").splitlines())
        assert count <= 420, f"{path.relative_to(ROOT)} has {count} lines"


def test_the_root_holds_what_was_agreed_c9() -> None:
    """pyproject.toml, hwmodel, configs, scenarios, tests, reports; beside them only what is customary."""
    agreed = {"pyproject.toml", "hwmodel", "configs", "scenarios", "tests", "reports"}
    customary = {"README.md", "LICENSE", "constraints.txt", ".ci", ".gitignore", ".pre-commit-config.yaml"}
    ignored = {".git", ".venv", "build", "dist", "hwmodel.egg-info", "__pycache__"}
    there = {path.name for path in ROOT.iterdir() if not (path.name.startswith(".") and path.name.endswith("_cache"))}
    assert agreed <= there
    assert there - ignored - {".hypothesis", ".benchmarks"} <= agreed | customary
