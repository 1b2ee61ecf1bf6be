#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# From a clone to the report: sets up what is missing, prepares the default tasks, runs the main job on 2 ranks.
# Run it again to go on after an interruption. RUN=FOLDER and RANKS=N choose another folder and number of ranks.
# It ends with the numbers that part from a recorded run's, which is no failure: another processor rounds otherwise, and
# options make another experiment. `taugrid_analysis reproduce`, which compares them itself, sets TAUGRID_REPRODUCE=no.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
run="${RUN:-runs/quickstart}"
measure experiments/quickstart "$run" "$@"
"$venv/bin/python" -m taugrid_analysis tables "$run"
"$venv/bin/python" -m taugrid_analysis report "$run"
if [ "${TAUGRID_REPRODUCE:-yes}" != no ]; then
  "$venv/bin/python" -m taugrid_analysis reproduce quickstart "$run" || true
fi
