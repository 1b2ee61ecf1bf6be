#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# From a clone to the report: sets up what is missing, prepares the default tasks, runs the main job on 2 ranks.
# Run it again to go on after an interruption. RUN=FOLDER and RANKS=N choose another folder and number of ranks.
# It ends with the numbers that part from a recorded run's, which is no failure: another processor rounds otherwise, and
# options make another experiment. `taugrid_analysis reproduce`, which compares them itself, sets TAUGRID_REPRODUCE=no.
# The last lines say what each step took, and RUN/start.tsv keeps it of the first start that came to this end.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
TAUGRID_STEPS="$(mktemp)"
export TAUGRID_STEPS
trap 'rm -f "$TAUGRID_STEPS"' EXIT
source jobs/common.sh
run="${RUN:-runs/quickstart}"
step "experiment"
measure experiments/quickstart "$run" "$@"
step "tables and report"
"$venv/bin/python" -m taugrid_analysis tables "$run"
"$venv/bin/python" -m taugrid_analysis report "$run"
if [ "${TAUGRID_REPRODUCE:-yes}" != no ]; then
  "$venv/bin/python" -m taugrid_analysis reproduce quickstart "$run" || true
fi
end_step
while IFS=$'\t' read -r took name; do printf '# %-21s %15s\n' "$name" "$(as_time "$took")"; done <"$TAUGRID_STEPS"
printf '# %-21s %15s\n' "all" "$(as_time "$SECONDS")"
[ -e "$run/start.tsv" ] || cp "$TAUGRID_STEPS" "$run/start.tsv"
