"""Writes the tables of inputs and outputs into the modules' READMEs: `python terraform/modules/tables.py`.

Reads files as `terraform fmt` leaves them, which is what makes so little code enough.
"""

import re
from pathlib import Path

_BLOCK = re.compile(r'^(variable|output) "(\w+)" \{\n(.*?)^\}$', re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r'^  description = "(.*)"$', re.MULTILINE)
_TYPE = re.compile(r"^  type +=(.*)$", re.MULTILINE)
_DEFAULT = re.compile(r"^  default +=(.*)$", re.MULTILINE)
_TABLE = "<!-- {} -->\n"


def with_tables(module: Path) -> str:
    """The README of a module, its tables as its files have them now. Raises ValueError for a block without a
    description."""
    readme = (module / "README.md").read_text(encoding="utf-8")
    for name, heads in (("variables", "| input | type | default | what |"), ("outputs", "| output | what |")):
        rows = [heads, re.sub(r"[^|]+", "---", heads)]
        for kind, block, body in _BLOCK.findall((module / f"{name}.tf").read_text(encoding="utf-8")):
            text = _TEXT.search(body)
            if text is None:
                raise ValueError(f"{module.name}: {kind} {block} has no description")
            default = _DEFAULT.search(body)
            cells = [f"`{block}`"]
            if kind == "variable":
                type_ = _TYPE.search(body)
                cells += [
                    _cell(type_[1].strip().removesuffix("({") if type_ else "any"),
                    "required" if default is None else _cell(default[1].strip()),
                ]
            rows.append("| " + " | ".join([*cells, text[1].replace('\\"', '"').replace("|", "\\|")]) + " |")
        start, end = _TABLE.format(name), _TABLE.format(f"/{name}")
        before, _, rest = readme.partition(start)
        readme = before + start + "\n".join(rows) + "\n" + end + rest.partition(end)[2]
    return readme


def _cell(code: str) -> str:
    return f"`{code}`"


if __name__ == "__main__":
    for found in sorted(Path(__file__).parent.glob("*/README.md")):
        found.write_text(with_tables(found.parent), encoding="utf-8")
