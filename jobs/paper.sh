#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# Everything that one paper measures, on the default tasks: bash jobs/paper.sh tangent_space|tau_jp|attention_only
# Ends by printing each of its tables, published numbers beside ours, and where its figures are. Six to ten minutes on
# two cores. Run it again to go on after an interruption. RUN=FOLDER and RANKS=N choose another folder and number of
# ranks.
paper="${1:-}"
case "$paper" in
  tangent_space | tau_jp | attention_only) ;;
  *) echo "$0: which paper? tangent_space, tau_jp or attention_only" >&2; exit 2 ;;
esac
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
run="${RUN:-runs/papers/$paper}"
measure "$paper" "$run" "$@"
runs=("$run")
if [ "$paper" = tangent_space ]; then  # its table 3 and figures 11, 15 and 16
  measure tangent_space_random "${run}_random"
  runs+=("${run}_random")
fi
for one in "${runs[@]}"; do
  "$venv/bin/python" -m taugrid_analysis tables "$one" --paper "$paper"
  "$venv/bin/python" -m taugrid_analysis figures "$one" --paper "$paper"
done
