# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""How long a run takes on N ranks, simulated from the rule alone: the group that asks first gets the dearest unit whose
needs are done, or one at least half as dear of a task or pair that it has had, or else that nobody has had; ranks of
one host slow each other down. Written without a look at the program's own replay."""

import math
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Unit:
    key: str
    cost: float
    needs: tuple[str, ...]
    seconds: float  # on a host by itself

    @property
    def subject(self) -> str:
        return self.key.split("/")[-1]


@dataclass(frozen=True)
class Machine:
    cores: int
    threads: int  # of a rank
    crowding: float  # how much longer a rank takes with all other cores busy
    ranks_per_host: int
    ranks_per_unit: int = 1

    def factor(self, busy: int) -> float:
        """How much longer a rank takes where so many ranks of its host are at work."""
        with_cores = max(1.0, self.cores / self.threads)
        if busy <= 1:
            return 1.0
        if busy < with_cores:
            return 1.0 + (self.crowding - 1.0) * (busy - 1) / (with_cores - 1)
        return (self.crowding if with_cores > 1 else 1.0) * busy / with_cores

    def hosts(self, group: int) -> list[int]:
        """The host of each rank of a group."""
        first = group * self.ranks_per_unit
        return [rank // self.ranks_per_host for rank in range(first, first + self.ranks_per_unit)]


def simulate(units: list[Unit], machine: Machine, ranks: int) -> float:
    """Seconds from the first unit's start to the last one's end."""
    position = {unit.key: i for i, unit in enumerate(units)}
    open_needs = {unit.key: {need for need in unit.needs if need in position} for unit in units}
    ready = {i for i, unit in enumerate(units) if not open_needs[unit.key]}
    had: dict[int, set[str]] = {group: set() for group in range(ranks // machine.ranks_per_unit)}
    of_somebody: set[str] = set()

    def deal(group: int) -> int:
        least = max(units[i].cost for i in ready) / 2

        def order(i: int) -> tuple[bool, bool, float, int]:
            subject = units[i].subject
            return subject not in had[group], subject in of_somebody - had[group], -units[i].cost, i

        chosen = min((i for i in ready if units[i].cost >= least), key=order)
        ready.remove(chosen)
        had[group].add(units[chosen].subject)
        of_somebody.add(units[chosen].subject)
        return chosen

    asking = list(range(ranks // machine.ranks_per_unit))
    at_work: dict[int, tuple[int, float]] = {}  # group: unit, seconds left
    clock, finished = 0.0, 0
    while finished < len(units):
        while asking and ready:
            group = asking.pop(0)
            at_work[group] = (i := deal(group), units[i].seconds)
        busy = Counter(host for group in at_work for host in machine.hosts(group))
        pace = {group: max(machine.factor(busy[host]) for host in machine.hosts(group)) for group in at_work}
        ends = {group: left * pace[group] for group, (_, left) in at_work.items()}
        passed = min(ends.values())
        group = min(g for g, end in ends.items() if end == passed)
        clock += passed
        unit = units[at_work.pop(group)[0]]
        at_work = {g: (i, max(0.0, left - passed / pace[g])) for g, (i, left) in at_work.items()}
        finished += 1
        for follower in units:
            needs = open_needs[follower.key]
            if unit.key in needs:
                needs.remove(unit.key)
                if not needs:
                    ready.add(position[follower.key])
        asking.append(group)
    assert math.isfinite(clock)
    return clock
