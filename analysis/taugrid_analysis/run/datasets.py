# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A group of results.h5 as an xarray data set: named dimensions, labels of tasks and pairs, values of α."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xarray as xr

from taugrid_analysis.errors import InputError
from taugrid_analysis.files import label
from taugrid_analysis.quantities import groups
from taugrid_analysis.run.group import Group, Variable
from taugrid_analysis.run.store import Store

ROLES = ("task", "points_of", "control", "other")  # dimensions whose labels are the tasks' names


class Reader:
    """Reads groups of one file; `tasks` and `pairs` are the labels, `is_joint` tells models of all tasks."""

    def __init__(
        self, store: Store, tasks: Sequence[str], pairs: Sequence[str], is_joint: Callable[[str], bool]
    ) -> None:
        self._store, self._is_joint = store, is_joint
        self._labels: dict[str, Any] = {role: list(tasks) for role in ROLES} | {
            "pair": list(pairs),
            "side": [1, 2],
        }

    def read(self, group: str, name: str, extra: Sequence[str]) -> xr.Dataset:
        """/GROUP/NAME as its quantity has it; what no quantity knows, by the file's own labels.

        extra: variables that are so large that they are not read unless they are named.
        """
        path = f"/{group}/{name}"
        known = groups().get(group, Group({}))
        if known.joint is not None and self._is_joint(name):
            known = known.joint
        sizes = {role: len(labels) for role, labels in self._labels.items()}
        coordinates = dict(self._axes(path, known, sizes))
        variables = {}
        for key, variable in known.variables.items():
            array_path = f"{path}/{variable.path or key}"
            of_nothing = "pair" in variable.dims and not sizes["pair"]
            if not variable.needed and (of_nothing or not self._store.has(array_path)):
                continue
            if variable.whole or key in extra:
                variables[key] = self._variable(array_path, variable, sizes)
        for key in self._store.names(path):
            stored = {variable.path or variable_key for variable_key, variable in known.variables.items()}
            if key not in stored and key not in known.axes and self._store.is_array(f"{path}/{key}"):
                variables |= self._unknown(path, key, sizes)
        used = {dim for variable in variables.values() for dim in variable.dims} | set(coordinates)
        coordinates |= {dim: labels for dim, labels in self._labels.items() if dim in used}
        dataset = xr.Dataset(variables, coordinates, self._attributes(path, known))
        dataset.encoding["source"] = path
        return dataset

    def _attributes(self, path: str, group: Group) -> dict[str, Any]:
        """As they are stored; those that the group needs are there, and numbers are numbers."""
        attributes = self._store.attributes(path)
        for name, meaning in {**group.words, **group.numbers}.items():
            attributes[name] = label(self._store.attribute(path, name, meaning))
        for name in group.numbers:
            try:
                attributes[name] = float(attributes[name])
            except ValueError:
                raise InputError(
                    f"{name} is {attributes[name]}", self._store.where(path), "a number"
                ) from None
        return attributes

    def _axes(self, path: str, group: Group, sizes: dict[str, int]) -> Mapping[str, Any]:
        axes = {}
        for name, dims in group.axes.items():
            values = self._store.increasing(f"{path}/{name}", group.least)
            for dim in dims:
                sizes[dim] = len(values)
                axes[dim] = values
        return axes

    def _variable(self, path: str, variable: Variable, sizes: dict[str, int]) -> xr.Variable:
        values = self._store.array(path, tuple(sizes.get(dim) for dim in variable.dims))
        for dim, size in zip(variable.dims, values.shape, strict=True):
            sizes[dim] = size
            if dim == "both_points":  # the trained task's points, then as many of the control's
                if size % 2:
                    raise InputError(f"has {size} points", self._store.where(path), "an even number")
                sizes["point"] = size // 2
        return xr.Variable(variable.dims, values, self._store.attributes(path))

    def _unknown(self, path: str, key: str, sizes: dict[str, int]) -> dict[str, xr.Variable]:
        """Reads it by the labels of its dimensions; one that repeats is numbered. Nothing without labels."""
        array_path = f"{path}/{key}"
        labels, shape = self._store.labels(array_path), self._store.shape(array_path)
        if not all(labels) or len(labels) != len(shape):
            return {}
        dims = [
            f"{label}_{labels[:place].count(label) + 1}" if labels.count(label) > 1 else label
            for place, label in enumerate(labels)
        ]
        renamed = [
            dim if sizes.get(dim, size) == size else f"{dim}_of_{key}"
            for dim, size in zip(dims, shape, strict=True)
        ]
        sizes |= dict(zip(renamed, shape, strict=True))
        try:
            values = self._store.array(array_path, shape)
        except InputError:  # text: no number to show
            return {}
        return {key: xr.Variable(renamed, values, self._store.attributes(array_path))}
