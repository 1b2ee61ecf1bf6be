# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""What was run, where and when: the head of the report and of the summary."""

from __future__ import annotations

import math
from datetime import datetime

from taugrid_analysis.run.opened import Run


def heading(run: Run) -> list[tuple[str, str]]:
    results = run.results
    model, provenance, units = results.model(), results.provenance(), results.units()
    entries = []
    if model is not None:
        entries.append(
            (
                "model",
                f"{model.name} ({model.architecture}, {model.parameters:,} parameters, {model.init}), θ0"
                f" {model.fingerprint[:12]}",
            )
        )
    entries.append(("tasks", f"{len(results.tasks)}: {', '.join(results.tasks)}"))
    entries.append(("regimes", ", ".join(results.regimes) or "none"))
    seeds = results.seeds()
    if seeds:
        entries.append(("seed" if len(seeds) == 1 else "seeds", ", ".join(seeds)))
    hosts = ", ".join(dict.fromkeys(results.hosts()))
    ranks = provenance.get("ranks", "")
    place = [f"{ranks} rank{'' if ranks == '1' else 's'}"] if ranks else []
    devices = list(dict.fromkeys(unit.device for unit in units))
    place += [", ".join(devices)] if devices else []
    place += [f"on {hosts}"] if hosts else []
    if place:
        entries.append(("machine", " ".join(place)))
    if units:
        entries.append(
            ("work", f"{len(units)} units, {sum(unit.seconds for unit in units):,.0f} rank-seconds")
        )
    joules = [unit.joules for unit in units if math.isfinite(unit.joules)]
    if joules:
        sources = ", ".join(sorted({unit.energy_source for unit in units if unit.energy_source}))
        entries.append(("energy", f"{sum(joules):,.0f} J of {len(joules)} units, by {sources}"))
    entries.append(("time", _period(results.root("started_utc"), results.root("finished_utc"))))
    entries.append(("version", f"taugrid {results.root('taugrid_version')}, {results.root('git_revision')}"))
    if run.missing:
        entries.append(("lacks", f"{len(run.missing)} numbers of a newer schema: tables --only lacking"))
    entries.append(("command", results.root("command_line")))
    return entries


def _period(start: str, end: str) -> str:
    try:
        seconds = (_moment(end) - _moment(start)).total_seconds()
    except (ValueError, TypeError):
        return f"{start} to {end}"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    length = f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
    return f"{start} to {end} ({length})"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
