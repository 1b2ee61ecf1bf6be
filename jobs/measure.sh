#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# bash jobs/measure.sh EXPERIMENT.toml FOLDER [OPTION…]: runs the experiment on RANKS=N ranks (2), from the repository's
# root; goes on where it was interrupted.
experiment="$1" folder="$2"
shift 2
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
launcher=(mpirun -q -n "${RANKS:-2}" --bind-to none)
[ "${RANKS:-2}" -le "$(nproc)" ] || launcher+=(--oversubscribe)
exec "${launcher[@]}" "build/${TAUGRID_PRESET:-release}/suite/taugrid" run "$experiment" --run-dir "$folder" "$@"
