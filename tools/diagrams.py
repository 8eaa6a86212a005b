"""Draw docs/img/transaction-states.svg and docs/img/group-states.svg from the coordinators' tables of moves.

    python -m tools.diagrams

The arrows are the tables' (`coordinator/txn/states.py`, `coordinator/group/states.py`): a move that is added there is
drawn here, and a state without a place is an error. In the first picture the three states at rest, which have the same
moves, are drawn once.
A test compares the files with this output.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.coordinator.group import states as group
from fencepost.coordinator.txn import states as txn

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "img"
WIDTH, HEIGHT = 164, 54  #: of a box
FONT = """font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="14\""""
STYLE = """\
  <style>
    .bg { fill: #ffffff } .t { fill: #1f2933 } .m { fill: #52606d } .l { stroke: #7b8794; stroke-width: 1.5; fill: none }
    .box { fill: #f5f7fa; stroke: #cbd2d9 } .ok { fill: #d1fae5; stroke: #10b981 } .no { fill: #fee2e2; stroke: #ef4444 }
    .st { fill: #fef3c7; stroke: #f59e0b } .mono { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 12.5px }
    .label { font-size: 11.5px; paint-order: stroke; stroke: #ffffff; stroke-width: 5px; stroke-linejoin: round }
  </style>
  <defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#7b8794"/></marker></defs>
"""  # noqa: E501

Point = tuple[float, float]
Move = tuple[str, str, str]  #: from, event, to


@dataclass(frozen=True, slots=True)
class Picture:
    title: str
    size: tuple[int, int]
    moves: tuple[Move, ...]
    places: Mapping[str, Point]  #: the middle of each state's box
    colours: Mapping[str, str]  #: a class of the style, for states that are not grey
    bends: Mapping[tuple[str, str], float] = field(default_factory=dict)  #: how far an arrow swerves, by its ends
    draws_twins_once: bool = False  #: of states with the same moves only the first has its arrows


TRANSACTION = Picture(
    "A transaction, as its coordinator sees it",
    (1080, 430),
    tuple((state.name, event.name, after.name) for state, moves in txn.MOVES.items() for event, after in moves.items()),
    {
        "EMPTY": (120, 200),
        "ONGOING": (390, 200),
        "PREPARE_COMMIT": (660, 110),
        "COMPLETE_COMMIT": (955, 110),
        "PREPARE_EPOCH_FENCE": (390, 310),
        "PREPARE_ABORT": (660, 310),
        "COMPLETE_ABORT": (955, 310),
        "DEAD": (120, 380),
    },
    {"ONGOING": "st", "PREPARE_COMMIT": "ok", "COMPLETE_COMMIT": "ok", "PREPARE_ABORT": "no", "COMPLETE_ABORT": "no"},
    {("EMPTY", "PREPARE_ABORT"): 105},
    draws_twins_once=True,
)
GROUP = Picture(
    "A consumer group, as its coordinator sees it",
    (1060, 500),
    tuple((state.name, event.name, after.name) for (state, event), after in group.MOVES.items()),
    {
        "EMPTY": (120, 230),
        "PREPARING": (390, 230),
        "COMPLETING": (660, 230),
        "STABLE": (930, 230),
        "DEAD": (120, 430),
    },
    {"STABLE": "ok", "PREPARING": "st", "COMPLETING": "st"},
    {
        ("EMPTY", "PREPARING"): -26,
        ("PREPARING", "EMPTY"): -26,
        ("PREPARING", "COMPLETING"): -26,
        ("COMPLETING", "PREPARING"): -26,
        ("STABLE", "PREPARING"): 75,
        ("EMPTY", "STABLE"): -75,
        ("STABLE", "EMPTY"): 115,
        ("STABLE", "DEAD"): -50,
    },
)
PICTURES = {"transaction-states.svg": TRANSACTION, "group-states.svg": GROUP}


def draw(picture: Picture) -> str:
    width, height = picture.size
    drawn, like = _arrows(picture)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {FONT}>',
        f'{STYLE}  <rect class="bg" width="{width}" height="{height}" rx="10"/>',
        f'  <text class="t" x="24" y="34" font-size="17" font-weight="600">{picture.title}</text>',
    ]
    for state, (x, y) in picture.places.items():
        kind, size = picture.colours.get(state, "box"), f'width="{WIDTH}" height="{HEIGHT}" rx="6"'
        lines.append(f'  <rect class="{kind}" x="{x - WIDTH / 2:g}" y="{y - HEIGHT / 2:g}" {size}/>')
        shift = 5 if state not in like else -3
        lines.append(f'  <text class="t mono" x="{x:g}" y="{y + shift:g}" text-anchor="middle">{state}</text>')
        if state in like:
            lines.append(
                f'  <text class="m label" x="{x:g}" y="{y + 15:g}" text-anchor="middle">goes on as {like[state]}</text>'
            )
    for (start, end), events in drawn.items():
        lines += _arrow(picture, start, end, ", ".join(events))
    return "\n".join([*lines, "</svg>", ""])


def _arrows(picture: Picture) -> tuple[dict[tuple[str, str], list[str]], dict[str, str]]:
    """Events by the ends of their arrow; and the states that have the moves of another, with that one."""
    by_state: dict[str, dict[str, str]] = {}
    for start, event, end in picture.moves:
        by_state.setdefault(start, {})[event] = end
    like: dict[str, str] = {}
    drawn: dict[tuple[str, str], list[str]] = {}
    for state, own in by_state.items():
        twin = next((other for other, its in by_state.items() if other not in like and its == own), state)
        if twin != state and picture.draws_twins_once:
            like[state] = twin
            continue
        for event, end in own.items():
            drawn.setdefault((state, end), []).append(event)
    return drawn, like


def _arrow(picture: Picture, start: str, end: str, text: str) -> list[str]:
    if start == end:
        x, y = picture.places[start]
        top = y - HEIGHT / 2
        path = f"M{x - 24:g} {top:g} C{x - 40:g} {top - 46:g} {x + 40:g} {top - 46:g} {x + 24:g} {top:g}"
        return _line(path, (x, top - 42), text)
    (x1, y1), (x2, y2) = picture.places[start], picture.places[end]
    length = math.hypot(x2 - x1, y2 - y1)
    bend = picture.bends.get((start, end), 0)
    across = (-(y2 - y1) / length, (x2 - x1) / length)
    control = ((x1 + x2) / 2 + 2 * bend * across[0], (y1 + y2) / 2 + 2 * bend * across[1])
    begin, stop = _edge((x1, y1), control), _edge((x2, y2), control)
    middle = tuple(0.25 * begin[axis] + 0.5 * control[axis] + 0.25 * stop[axis] for axis in (0, 1))
    path = f"M{begin[0]:.1f} {begin[1]:.1f} Q{control[0]:.1f} {control[1]:.1f} {stop[0]:.1f} {stop[1]:.1f}"
    return _line(path, (middle[0], middle[1]), text)


def _line(path: str, at: Point, text: str) -> list[str]:
    return [
        f'  <path class="l" d="{path}" marker-end="url(#a)"/>',
        f'  <text class="m label" x="{at[0]:.1f}" y="{at[1] - 4:.1f}" text-anchor="middle">{text}</text>',
    ]


def _edge(middle: Point, towards: Point) -> Point:
    """Where a line from the middle of a box leaves it."""
    dx, dy = towards[0] - middle[0], towards[1] - middle[1]
    scale = min(
        (WIDTH / 2 + 3) / abs(dx) if dx else math.inf,
        (HEIGHT / 2 + 3) / abs(dy) if dy else math.inf,
    )
    return middle[0] + dx * scale, middle[1] + dy * scale


if __name__ == "__main__":
    for name, picture in PICTURES.items():
        (IMAGES / name).write_text(draw(picture))
