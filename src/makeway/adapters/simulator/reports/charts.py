"""Charts as inline SVG: a level over time, and stacked bars. Each has a title, a description and a table.

No script and no external resources: tooltips are ``<title>`` elements, and colours are classes that the page defines
for light and dark. Colour never carries meaning alone; the table has the same data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from makeway.adapters.simulator.reports.words import plain

WIDTH, HEIGHT = 640, 190
LEFT, RIGHT, TOP, BOTTOM = 64, 8, 14, 24  # room for labels
PLOT_WIDTH, PLOT_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
COLOURS = 8  # classes c0 … c7
VERDICTS = ("better", "worse")  # cells that are coloured
_NAME = ' class="name"'


def text(value: object) -> str:
    """Escape text for a page: outside text cannot become markup."""
    return escape(plain(str(value)), quote=True)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, names: int = 1, most: int | None = None) -> str:
    """A table. The first ``names`` columns head their rows; beyond ``most`` rows the rest is only counted."""
    head = "".join(
        f'<th scope="col"{_NAME if rank < names else ""}>{text(each)}</th>' for rank, each in enumerate(columns)
    )
    shown = rows if most is None else rows[:most]
    body = "".join(f"<tr>{''.join(_cells(row, names))}</tr>" for row in shown)
    rest = len(rows) - len(shown)
    more = f"<p>and {rest} more rows; <code>-o json</code> has them all</p>" if rest else ""
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{more}'
        if rows
        else "<p>none</p>"
    )


def _cells(row: Sequence[str], names: int) -> Iterator[str]:
    for rank, cell in enumerate(row):
        if rank < names:
            yield f'<th scope="row">{text(cell)}</th>'
        else:
            yield f'<td class="{cell}">{cell}</td>' if cell in VERDICTS else f"<td>{text(cell)}</td>"


def figure(name: str, title: str, words: str, marks: str, alternative: str, legend: str = "") -> str:
    """A drawing with a title, a description for screen readers, and its numbers as a table."""
    return (
        f'<figure id="{name}"><figcaption>{text(title)}</figcaption>{legend}'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{text(title)}</title><desc id="{name}-d">{text(words)}</desc>{marks}</svg>'
        f"<details><summary>As a table</summary>{alternative}</details></figure>"
    )


# --- a level through time --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChart:
    """A level of use in equal parts of a span, beside a line for the owned quota."""

    name: str  # unique in the page
    title: str
    words: str
    levels: Sequence[int]
    line: int
    labels: tuple[str, str]  # of the line, and of the highest level
    ticks: Sequence[tuple[int, str]]  # thousandths of the span, and the label
    spots: Sequence[Sequence[str]]  # the same in few parts, for tooltips and the table: when, level
    columns: Sequence[str]

    def svg(self) -> str:
        most = max(1, self.line, *self.levels)
        line_y = _y(self.line, most)
        area = self._area(most)
        marks = [
            f'<defs><path id="{self.name}-p" d="{area}"/><clipPath id="{self.name}-c">',
            f'<rect x="{LEFT}" y="0" width="{PLOT_WIDTH}" height="{line_y}"/></clipPath></defs>',
            f'<use href="#{self.name}-p" class="used"/>',
            f'<use href="#{self.name}-p" class="over" clip-path="url(#{self.name}-c)"/>',
            f'<path class="line" d="M{LEFT} {line_y}H{LEFT + PLOT_WIDTH}"/>',
            _label(line_y, self.labels[0]),
            _label(_y(most, most), self.labels[1]) if most > self.line and line_y > TOP + 12 else "",
            _label(TOP + PLOT_HEIGHT, "0") if line_y < TOP + PLOT_HEIGHT - 12 else "",
            *_time_axis(self.ticks),
            *self._spots(),
        ]
        return figure(self.name, self.title, self.words, "".join(marks), table(self.columns, self.spots))

    def _area(self, most: int) -> str:
        """The area as steps; equal levels are one step."""
        count, last = len(self.levels), None
        path = [f"M{LEFT} {TOP + PLOT_HEIGHT}"]
        for part, each in enumerate(self.levels):
            y = _y(each, most)
            if y != last:
                path.append(f"H{_x(part, count)}V{y}")
                last = y
        path.append(f"H{LEFT + PLOT_WIDTH}V{TOP + PLOT_HEIGHT}Z")
        return "".join(path)

    def _spots(self) -> Iterator[str]:
        for part, row in enumerate(self.spots):
            x, next_x = _x(part, len(self.spots)), _x(part + 1, len(self.spots))
            told = text(", ".join(f"{name} {cell}" for name, cell in zip(self.columns, row, strict=True)))
            yield (
                f'<rect class="spot" x="{x}" y="{TOP}" width="{_short(next_x - x)}" height="{PLOT_HEIGHT}">'
                f"<title>{told}</title></rect>"
            )


# --- bars ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class BarChart:
    """Counts side by side, each a stack of several kinds."""

    name: str
    title: str
    words: str
    noun: str  # what a bar stands for: the first column of the table
    bars: Sequence[str]
    stacks: Sequence[tuple[str, Sequence[int]]]  # kind, and its count in every bar; at most ``COLOURS``
    ticks: Sequence[tuple[int, str]] = ()  # none: each bar has its label below

    def svg(self) -> str:
        most = max(1, *(sum(counts) for counts in zip(*(each for _, each in self.stacks), strict=True)))
        rows = [[bar, *(str(each[rank]) for _, each in self.stacks)] for rank, bar in enumerate(self.bars)]
        filled = [row for row in rows if any(cell != "0" for cell in row[1:])]
        axis = _time_axis(self.ticks) if self.ticks else self._names()
        marks = (*self._marks(most), _label(_y(most, most), str(most)), _label(TOP + PLOT_HEIGHT, "0"), *axis)
        alternative = table([self.noun, *(kind for kind, _ in self.stacks)], filled)
        legend = self._legend() if len(self.stacks) > 1 else ""
        return figure(self.name, self.title, self.words, "".join(marks), alternative, legend)

    def _marks(self, most: int) -> Iterator[str]:
        count = len(self.bars)
        for rank, bar in enumerate(self.bars):
            x, next_x, below = _x(rank, count), _x(rank + 1, count), 0
            for colour, (kind, counts) in enumerate(self.stacks):
                if counts[rank]:
                    top, foot = _y(below + counts[rank], most), _y(below, most)
                    yield (
                        f'<rect class="bar c{colour}" x="{_short(x + 1)}" y="{top}"'
                        f' width="{_short(max(0.5, next_x - x - 2))}" height="{_short(foot - top)}">'
                        f"<title>{text(f'{bar}: {counts[rank]} {kind}')}</title></rect>"
                    )
                    below += counts[rank]

    def _names(self) -> Iterator[str]:
        for rank, bar in enumerate(self.bars):
            middle = (_x(rank, len(self.bars)) + _x(rank + 1, len(self.bars))) / 2
            yield f'<text class="tick" x="{_short(middle)}" y="{HEIGHT - 8}">{text(bar)}</text>'

    def _legend(self) -> str:
        kinds = "".join(
            f'<li><span class="key c{colour}"></span>{text(kind)}</li>' for colour, (kind, _) in enumerate(self.stacks)
        )
        return f'<ul class="legend">{kinds}</ul>'


# --- where things are ------------------------------------------------------------------------------------------------


def _x(part: int, count: int) -> float:
    return _short(LEFT + PLOT_WIDTH * part / count)


def _y(value: int, most: int) -> float:
    return _short(TOP + PLOT_HEIGHT - PLOT_HEIGHT * value / most)


def _short(value: float) -> float:
    """A number with one decimal: finer than any screen."""
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def _label(y: float, words: str) -> str:
    return f'<text class="level" x="{LEFT - 6}" y="{_short(y + 4)}">{text(words)}</text>'


def _time_axis(ticks: Sequence[tuple[int, str]]) -> Iterator[str]:
    foot = TOP + PLOT_HEIGHT
    yield f'<path class="axis" d="M{LEFT} {foot}H{LEFT + PLOT_WIDTH}"/>'
    for thousandths, words in ticks:
        x = _x(thousandths, 1000)
        yield f'<path class="axis" d="M{x} {foot}v4"/><text class="tick" x="{x}" y="{HEIGHT - 6}">{text(words)}</text>'
