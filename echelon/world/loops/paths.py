"""Shortest ways over a grid, as a loop: the costs that `paths.relax` ends with."""

from __future__ import annotations

from typing import Any

from echelon.runtime.jit import kernel


@kernel
def lower_costs(cost: Any, fixed: Any, steps: Any, offsets: Any, queue: Any, waits: Any) -> None:
    """Lower `cost` until no step shortens it: columns whose cost fell are looked at again, in the order of their fall.

    Args:
        cost: `[F, Y, X]` int32, written to.
        fixed: `[F, Y, X]` bool, columns that keep their cost.
        steps: `[F or 1, K, Y, X]` int32, what each of K steps costs from every column.
        offsets: `[K, 2]` int64, dx and dy of the steps.
        queue: `[Y * X]` int64, scratch memory.
        waits: `[Y, X]` bool, scratch memory.
    """
    size_y, size_x = cost.shape[1:]
    for field in range(cost.shape[0]):
        table = min(field, steps.shape[0] - 1)
        first, count = 0, 0
        for y in range(size_y):
            for x in range(size_x):
                waits[y, x] = fixed[field, y, x]
                if fixed[field, y, x]:
                    queue[count] = y * size_x + x
                    count += 1
        while count > 0:
            y, x = queue[first] // size_x, queue[first] % size_x
            first, count = (first + 1) % (size_y * size_x), count - 1
            waits[y, x] = False
            for step in range(offsets.shape[0]):
                from_x, from_y = x - offsets[step, 0], y - offsets[step, 1]
                if from_x < 0 or from_y < 0 or from_x >= size_x or from_y >= size_y or fixed[field, from_y, from_x]:
                    continue
                through = cost[field, y, x] + steps[table, step, from_y, from_x]
                if through < cost[field, from_y, from_x]:
                    cost[field, from_y, from_x] = through
                    if not waits[from_y, from_x]:
                        waits[from_y, from_x] = True
                        queue[(first + count) % (size_y * size_x)] = from_y * size_x + from_x
                        count += 1
