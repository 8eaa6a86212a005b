"""Charts as SVG: lines over a logarithmic axis, and bars side by side. Pure: numbers in, text out."""

import math
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 66, 52
FONT = "ui-sans-serif, system-ui, Segoe UI, Helvetica, Arial, sans-serif"
INK, PALE, GRID = "#0f172a", "#475569", "#e2e8f0"
COLOURS = ("#2563eb", "#ea580c", "#059669", "#7c3aed", "#b91c1c", "#0891b2")
BAR, BAR_GAP, NAMES_WIDTH = 20, 6, 330

Point = tuple[float, float]


def lines(title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[Point]], *, log_y: bool = False) -> str:
    """One line for each name. The x axis is logarithmic; the y axis begins at 0 unless it is, too."""
    points = [point for each in series.values() for point in each]
    if not points:
        raise ValueError(f"{title}: nothing to draw")
    x_ticks = sorted({x for x, _ in points})
    y_ticks = _log_ticks([y for _, y in points]) if log_y else linear_ticks(max(y for _, y in points))
    x_low, x_high = math.log(x_ticks[0]), math.log(x_ticks[-1])

    def place_x(x: float) -> float:
        share = (math.log(x) - x_low) / (x_high - x_low) if x_high > x_low else 0.5
        return LEFT + 12 + share * (WIDTH - LEFT - RIGHT - 24)

    def place_y(y: float) -> float:
        low, high = y_ticks[0], y_ticks[-1]
        share = (math.log(y / low) / math.log(high / low)) if log_y else (y - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 24, title, "600", size=15)]
    for tick in y_ticks:
        parts.append(_line(LEFT, place_y(tick), WIDTH - RIGHT, place_y(tick), GRID))
        parts.append(_text(LEFT - 8, place_y(tick) + 4, number(tick), anchor="end", fill=PALE))
    last_end = -1.0
    for tick in x_ticks:
        parts.append(_line(place_x(tick), HEIGHT - BOTTOM, place_x(tick), HEIGHT - BOTTOM + 5, PALE))
        label, middle = number(tick), place_x(tick)
        if middle - 4 * len(label) > last_end:
            parts.append(_text(middle, HEIGHT - BOTTOM + 20, label, anchor="middle", fill=PALE))
            last_end = middle + 4 * len(label)
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label, anchor="middle", fill=PALE))
    parts.append(_text(WIDTH - RIGHT, 24, y_label, anchor="end", fill=PALE))
    legend_x = float(LEFT)
    for (name, each), colour in zip(series.items(), _colours(len(series)), strict=True):
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in sorted(each))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{place_x(x):.1f}" cy="{place_y(y):.1f}" r="3.5" fill="{colour}"/>' for x, y in each]
        parts.append(f'<rect x="{legend_x:.0f}" y="38" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(_text(legend_x + 18, 48, name))
        legend_x += 36 + 7 * len(name)
    return _svg(title, WIDTH, HEIGHT, parts)


def bars(title: str, unit: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """A group of bars for each name, a bar for each name in it; the same name has the same colour in all groups."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    colours = dict(zip(names, _colours(len(names)), strict=True))
    most = max((value for group in groups.values() for value in group.values()), default=0.0)
    if most <= 0:
        raise ValueError(f"{title}: nothing to draw")
    parts = [_text(20, 24, title, "600", size=15), _text(WIDTH - RIGHT, 24, unit, anchor="end", fill=PALE)]
    y = 40.0
    for group, values in groups.items():
        y += 20
        parts.append(_text(20, y, group, "600"))
        y += 8
        for name, value in values.items():
            length = value / most * (WIDTH - NAMES_WIDTH - 90)
            parts.append(_text(NAMES_WIDTH - 10, y + 15, name, anchor="end"))
            parts.append(
                f'<rect x="{NAMES_WIDTH}" y="{y:.0f}" width="{length:.1f}" height="{BAR}" rx="2" '
                f'fill="{colours[name]}"/>'
            )
            parts.append(_text(NAMES_WIDTH + length + 8, y + 15, number(value), fill=PALE))
            y += BAR + BAR_GAP
    return _svg(title, WIDTH, round(y) + 14, parts)


def linear_ticks(most: float) -> list[float]:
    """From 0 to at least `most`, in four to seven round steps."""
    if most <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(most))
    step = next(each * power for each in (0.2, 0.25, 0.5, 1.0, 2.0) if most / (each * power) <= 6)
    return [step * index for index in range(math.ceil(round(most / step, 9)) + 1)]


def _log_ticks(values: Sequence[float]) -> list[float]:
    """Powers of ten around all values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def number(value: float) -> str:
    """Short: 1.5, 120, 1k, 2.5M."""
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{suffix}"
    return f"{value:.3g}"


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _text(
    x: float, y: float, text: str, weight: str = "400", *, anchor: str = "start", fill: str = INK, size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="{FONT}">'
    body = "\n".join(f"  {part}" for part in parts)
    ground = f'  <title>{escape(title)}</title>\n  <rect width="{width}" height="{height}" fill="#fff"/>'
    return f"{head}\n{ground}\n{body}\n</svg>\n"
