"""Lays out the history of memory as a graph: a change, what led to it and what followed.

Computes positions of nodes and edges; the template draws them as inline SVG, in which each node is
a link. The page lists the same connections.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kode.messages import shorten
from kode.view.remembered import Linked

STEPS = 2
"""Maximum distance from the change in the middle."""
MOST_IN_A_COLUMN = 6
WIDTH, HEIGHT = 240, 46
"""Size of a node, in units of the drawing."""
GAP_X, GAP_Y = 36, 14
TEXT_CHARS = 32


@dataclass(frozen=True, kw_only=True)
class Node:
    linked: Linked
    x: int
    y: int
    head: str
    text: str
    is_here: bool


@dataclass(frozen=True, kw_only=True)
class Edge:
    x1: int
    y1: int
    x2: int
    y2: int


@dataclass(frozen=True, kw_only=True)
class Graph:
    width: int
    height: int
    nodes: tuple[Node, ...]
    """From left to right: earlier changes first."""
    edges: tuple[Edge, ...]
    node_width: int = WIDTH
    node_height: int = HEIGHT


def around(changes: Sequence[Linked], id: str) -> Graph | None:
    """The graph around a change; None if it is connected with none."""
    known = {one.change.id: one for one in changes}
    columns = _columns(known, id)
    if len(columns) == 1:
        return None
    first = min(columns)
    tallest = max(map(len, columns.values()))
    nodes: dict[str, Node] = {}
    for column, ids in sorted(columns.items()):
        top = (tallest - len(ids)) * (HEIGHT + GAP_Y) // 2
        for row, one in enumerate(ids):
            nodes[one] = _node(
                known[one],
                x=(column - first) * (WIDTH + GAP_X) + 2,
                y=top + row * (HEIGHT + GAP_Y) + 2,
                is_here=one == id,
            )
    edges = [
        Edge(x1=of.x + WIDTH, y1=of.y + HEIGHT // 2, x2=to.x, y2=to.y + HEIGHT // 2)
        for to in nodes.values()
        for before in to.linked.made_from
        if (of := nodes.get(before.id)) is not None and of.x < to.x
    ]
    return Graph(
        width=len(columns) * (WIDTH + GAP_X) - GAP_X + 4,
        height=tallest * (HEIGHT + GAP_Y) - GAP_Y + 4,
        nodes=tuple(nodes.values()),
        edges=tuple(edges),
    )


def _columns(known: Mapping[str, Linked], id: str) -> dict[int, list[str]]:
    """The ids by column: 0 for the change itself, negative for what led to it, positive for what
    followed."""
    columns = {0: [id]}
    seen = {id}
    ways: tuple[tuple[int, Callable[[Linked], list[str]]], ...] = (
        (-1, lambda one: [change.id for change in one.made_from]),
        (1, _followers),
    )
    for way, next_of in ways:
        for step in range(1, STEPS + 1):
            edge = columns.get(way * (step - 1), [])
            found = dict.fromkeys(near for one in edge for near in next_of(known[one]))
            ids = [one for one in found if one in known and one not in seen][:MOST_IN_A_COLUMN]
            if not ids:
                break
            columns[way * step] = ids
            seen.update(ids)
    return columns


def _followers(one: Linked) -> list[str]:
    undone = [one.undone_by.id] if one.undone_by else []
    return [*undone, *(change.id for change in one.led_to)]


def _node(one: Linked, *, x: int, y: int, is_here: bool) -> Node:
    change = one.change
    texts = change.after or change.before
    return Node(
        linked=one,
        x=x,
        y=y,
        head=f"{change.kind}, {change.at[:10]}{' (undone)' if one.undone_by else ''}",
        text=shorten(texts[-1], TEXT_CHARS) if texts else change.target,
        is_here=is_here,
    )
