"""Neither the console nor Terraform's provider has modules that import each other in a circle, at whatever moment."""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
CONSOLE = REPOSITORY / "web" / "src"
PROVIDER = REPOSITORY / "terraform" / "provider"
_IMPORTED = re.compile(r"""\b(?:from|import)\s*\(?\s*["']((?:@/|\.)[^"']+)["']""")


def imported_by_script(path: Path) -> Iterator[Path]:
    for name in _IMPORTED.findall(path.read_text()):
        base = CONSOLE / name[2:] if name.startswith("@/") else path.parent / name
        tried = (base.with_name(base.name + suffix) for suffix in (".ts", ".tsx"))
        yield from (found.resolve() for found in tried if found.is_file())


def imported_by_module(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("medley_terraform"):
            folder = PROVIDER.joinpath(*node.module.split("."))
            tried = (folder.with_suffix(".py"), *(folder / f"{each.name}.py" for each in node.names))
            yield from (found for found in tried if found.is_file())


def test_the_console_has_no_circle_of_imports() -> None:
    scripts = {path.resolve(): set(imported_by_script(path)) for path in CONSOLE.rglob("*.ts*")}
    assert sum(map(len, scripts.values())) > len(scripts)
    TopologicalSorter(scripts).prepare()  # raises CycleError, which names the circle


def test_the_provider_has_no_circle_of_imports() -> None:
    modules = {path: set(imported_by_module(path)) for path in (PROVIDER / "medley_terraform").rglob("*.py")}
    assert sum(map(len, modules.values())) > len(modules)
    TopologicalSorter(modules).prepare()
