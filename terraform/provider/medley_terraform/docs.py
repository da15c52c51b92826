"""The documentation of the provider, made of its schemas: pages as the Terraform registry shows them."""

from collections.abc import Iterator
from pathlib import Path

from medley_terraform.provider import DATA_SOURCES, PROVIDER, RESOURCES
from medley_terraform.report import written
from medley_terraform.schema import Schema
from medley_terraform.servicer import PREFIX
from medley_terraform.types import Attribute, Collection, Many, Nested, Nesting, Scalar, Type

EXAMPLES = Path(__file__).parents[3] / "examples" / "terraform"
_NESTED = {Nesting.SINGLE: "object", Nesting.LIST: "list of objects", Nesting.MAP: "map of objects"}


def pages() -> dict[str, str]:
    """Text by path below the folder of the documentation."""
    found = {"index.md": _page("medley Provider", PROVIDER, _example("provider"))}
    for name, resource in RESOURCES.items():
        full = PREFIX + name
        imported = f"## Import\n\nBy {resource.import_id}:\n\n```\nterraform import {full}.NAME ID\n```\n"
        page = _page(f"{full} (Resource)", resource.schema, _example(f"resources/{full}"))
        found[f"resources/{name}.md"] = f"{page}\n{imported}"
    for name, source in DATA_SOURCES.items():
        full = PREFIX + name
        found[f"data-sources/{name}.md"] = _page(
            f"{full} (Data Source)", source.schema, _example(f"data-sources/{full}")
        )
    return found


def write_docs(folder: Path) -> None:
    for name, text in pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _example(name: str) -> str:
    return (EXAMPLES / f"{name}.tf").read_text()


def _page(title: str, schema: Schema, example: str) -> str:
    parts = [f"# {title}", schema.description, "## Example", f"```terraform\n{example.strip()}\n```", "## Schema"]
    parts += list(_sections(schema.attributes))
    for path, nested in _nested((), schema.attributes):
        parts += [f'<a id="{_anchor(path)}"></a>\n### `{written(path)}`', *_sections(nested.attributes)]
    return "\n\n".join(parts) + "\n"


def _sections(attributes: tuple[Attribute, ...]) -> Iterator[str]:
    for heading, kept in (
        ("Required", [each for each in attributes if each.required]),
        ("Optional", [each for each in attributes if each.optional]),
        ("Read-Only", [each for each in attributes if each.computed]),
    ):
        if kept:
            lines = [_line(each) for each in sorted(kept, key=lambda each: each.name)]
            yield f"#### {heading}\n\n" + "\n".join(lines)


def _line(attribute: Attribute) -> str:
    notes = [_kind(attribute.type)]
    notes += ["sensitive"] if attribute.sensitive else []
    notes += ["a change makes a new one"] if attribute.replaces else []
    limits = _limits(attribute)
    notes += [limits] if limits else []
    default = "" if attribute.default in (None, "") else f" Default: `{str(attribute.default).lower()}`."
    return f"- `{attribute.name}` ({', '.join(notes)}): {attribute.description}{default}"


def _limits(attribute: Attribute) -> str:
    limits = attribute.limits
    bounds = (("≥", limits.least), (">", limits.above), ("≤", limits.most), ("<", limits.below))
    return " ".join(
        f"{sign} {int(bound) if bound == int(bound) else bound}" for sign, bound in bounds if bound is not None
    )


def _kind(kind: Type) -> str:
    match kind:
        case Scalar.JSON:
            return "JSON string"
        case Scalar():
            return kind.value
        case Many(Collection() as collection, item):
            return f"{collection.value} of {item.value}s"
        case Nested(nesting):
            return f"{_NESTED[nesting]}, below"


def _nested(path: tuple[str, ...], attributes: tuple[Attribute, ...]) -> Iterator[tuple[tuple[str, ...], Nested]]:
    for each in attributes:
        if isinstance(each.type, Nested):
            here = (*path, each.name)
            yield here, each.type
            yield from _nested(here, each.type.attributes)


def _anchor(path: tuple[str, ...]) -> str:
    return "nested--" + "--".join(path)
