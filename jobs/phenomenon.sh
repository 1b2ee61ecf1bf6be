#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Shows that the default model has what the papers describe: the default run over three seeds, and once from a
# random start; ends by printing means, deviations and the criteria. About 15 minutes on two cores.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bash jobs/setup.sh --data
venv="${TAUGRID_VENV:-.venv}"
"$venv/bin/python" jobs/prepare default --out data
if [ "$(id -u)" = 0 ]; then export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; fi
folders=()
measure() {  # FOLDER [--set …]
  local folder="runs/phenomenon/$1"; shift
  mpirun -q -n "${RANKS:-2}" --bind-to none build/release/suite/taugrid run jobs/experiments/quickstart.toml \
    --run-dir "$folder" "$@"
  folders+=("$folder")
}
for seed in 0 1 2; do measure "seed$seed" --set "run.seed=$seed"; done
measure random --set model.init=random
"$venv/bin/python" -m taugrid_analysis seeds "${folders[@]}"
