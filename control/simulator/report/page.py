"""One page that needs nothing beside itself: no script, no font, no picture from elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np

from control.simulator.report.chart import Chart, Kind
from control.simulator.report.drawing import svg
from control.simulator.report.palette import DARK, LIGHT, custom_properties

_WIDE = (590, 270)
_NARROW = (340, 250)
"""Pixels of a picture beside another one, and on a telephone."""
_MOST_ROWS = 60
"""Most rows of the figures under a picture; more are thinned out."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure that is seen first."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    texts: frozenset[int] = frozenset({0})
    """Columns that are words, and not figures."""


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Page:
    title: str
    lead: str
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]


def html(page: Page) -> str:
    """Raises MissingPlotsError."""
    style = files("control.simulator.report").joinpath("page.css").read_text(encoding="utf-8")
    style = style.replace("LIGHT", custom_properties(LIGHT)).replace("DARK", custom_properties(DARK))
    tiles = "".join(
        f'<div class="tile"><dt>{escape(t.name)}</dt><dd>{escape(t.value)}</dd>'
        f"{f'<p>{escape(t.note)}</p>' if t.note else ''}</div>"
        for t in page.tiles
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(page.title)}</h1><p>{escape(page.lead)}</p></header>\n"
        f'<dl class="tiles">{tiles}</dl>\n'
        f"{''.join(map(_section, page.sections))}</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    text = "".join(f"<p>{escape(line)}</p>\n" for line in section.text)
    tables = "".join(_table(table) for table in section.tables)
    charts = "".join(_chart(chart) for chart in section.charts)
    grid = f'<div class="charts">{charts}</div>\n' if charts else ""
    return f"<section><h2>{escape(section.title)}</h2>\n{text}{tables}{grid}</section>\n"


def _table(table: Table) -> str:
    def cells(tag: str, values: Iterable[str]) -> str:
        return "".join(
            f"<{tag}{'' if n in table.texts else ' class=figure'}>{escape(value)}</{tag}>"
            for n, value in enumerate(values)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    head = f"<thead><tr>{cells('th', table.columns)}</tr></thead>"
    # A table that is wider than a telephone is moved sideways, by keys too.
    words = ' class="words"' if len(table.texts) == len(table.columns) else ""
    return f'<div class="scroll" tabindex="0"><table{words}>{head}<tbody>{body}</tbody></table></div>\n'


def _chart(chart: Chart) -> str:
    legend = "".join(
        f'<li><span class="swatch dash-{n % 4 if chart.kind is not Kind.STACK else 0}" '
        f'style="--swatch: var(--line-{n})"></span>{escape(line.name)}</li>'
        for n, line in enumerate(chart.lines)
    )
    note = f"<p>{escape(chart.note)}</p>" if chart.note else ""
    return (
        f'<figure id="{escape(chart.id)}"><figcaption><h3>{escape(chart.title)}</h3>{note}</figcaption>'
        f'<div class="wide">{svg(chart, *_WIDE)}</div><div class="narrow">{svg(chart, *_NARROW)}</div>'
        f'<ul class="legend">{legend}</ul>'
        f"<details><summary>Figures</summary>{_table(_figures(chart))}</details></figure>\n"
    )


def _figures(chart: Chart) -> Table:
    """What the picture shows, for readers who do not see it."""
    if chart.kind is Kind.CURVE:
        shares = (0.5, 0.9, 0.95, 0.99)
        columns = ("", *(f"{share:.0%}" for share in shares))
        places = [(line, np.searchsorted(line.y, shares)) for line in chart.lines if len(line.x)]
        rows = tuple((line.name, *(f"{x:,.4g}" for x in line.x[at])) for line, at in places)
        return Table(columns, rows)
    if not chart.lines:
        return Table(("",), ())
    edges = chart.lines[0].x
    step = max(1, -(-(len(edges) - 1) // _MOST_ROWS))
    rows = tuple(
        (f"{edges[n]:,.4g}", *(f"{line.y[n]:,.4g}" if np.isfinite(line.y[n]) else "" for line in chart.lines))
        for n in range(0, len(edges) - 1, step)
    )
    return Table((f"from {chart.x_unit}", *(line.name for line in chart.lines)), rows)
