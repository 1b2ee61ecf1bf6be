#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# From a clone to the report: sets up what is missing, prepares the default tasks, runs the main job on 2 ranks.
# Run it again to go on after an interruption. RUN=FOLDER and RANKS=N choose another folder and number of ranks.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash jobs/setup.sh --data
venv="${TAUGRID_VENV:-.venv}"
"$venv/bin/python" jobs/prepare default --out data
run="${RUN:-runs/quickstart}"
launcher=(mpirun -q -n "${RANKS:-2}" --bind-to none)
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
[ "${RANKS:-2}" -le "$(nproc)" ] || launcher+=(--oversubscribe)
code=0
"${launcher[@]}" build/release/suite/taugrid run jobs/experiments/quickstart.toml --run-dir "$run" "$@" || code=$?
if [ "$code" = 75 ]; then echo "Stopped early; run the same command again to go on." >&2; fi
[ "$code" = 0 ] || exit "$code"
"$venv/bin/python" -m taugrid_analysis tables "$run"
"$venv/bin/python" -m taugrid_analysis report "$run"
