#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Shows that the default model has what the papers describe: the default run over three seeds, and once from a
# random start; ends by printing means, deviations and the criteria. About 15 minutes on two cores.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
folders=(runs/phenomenon/{seed0,seed1,seed2,random})
for seed in 0 1 2; do measure quickstart "${folders[$seed]}" --set "run.seed=$seed"; done
measure quickstart "${folders[3]}" --set model.init=random
"$venv/bin/python" -m taugrid_analysis seeds "${folders[@]}"
