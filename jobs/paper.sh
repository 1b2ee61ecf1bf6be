#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
# What one paper measures, on the default tasks: bash jobs/paper.sh tangent_space, tau_jp, attention_only, bases or
# cross_task_linearity (of the last two not all is measured yet). Ends by printing each of its tables, published numbers
# beside ours, and where its figures are. Five to fifteen minutes on two cores (cross_task_linearity: not timed yet). Run it
# again to go on after an interruption. RUN=FOLDER and RANKS=N choose another folder and number of ranks. bases prints the
# run's own tables too, of merging and of every number of clusters, and makes a report.
# And the default language tasks, of no paper's own: bash jobs/paper.sh language, likewise.
paper="${1:-}"
case "$paper" in
  tangent_space | tau_jp | attention_only | cross_task_linearity | bases | language) ;;
  *)
    echo "$0: which paper? tangent_space, tau_jp, attention_only, cross_task_linearity or bases; or language" >&2
    exit 2
    ;;
esac
shift
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source jobs/common.sh
run="${RUN:-runs/papers/$paper}"
measure "$paper" "$run" "$@"
if [ "$paper" = language ] || [ "$paper" = bases ]; then
  "$venv/bin/python" -m taugrid_analysis tables "$run"
  "$venv/bin/python" -m taugrid_analysis report "$run"
fi
if [ "$paper" = language ]; then exit; fi
"$venv/bin/python" -m taugrid_analysis tables "$run" --paper "$paper"
"$venv/bin/python" -m taugrid_analysis figures "$run" --paper "$paper"
if [ "$paper" = tangent_space ]; then  # what it shows of a random start: table 3, figures 11 and 16
  measure tangent_space_random "${run}_random"
  "$venv/bin/python" -m taugrid_analysis tables "${run}_random" --paper "$paper" --only table3
  "$venv/bin/python" -m taugrid_analysis figures "${run}_random" --paper "$paper" | grep -v needs
fi
if [ "$paper" = cross_task_linearity ]; then  # figures 4 to 6: fine-tunings of one task
  measure cross_task_linearity_soups "${run}_soups"
  "$venv/bin/python" -m taugrid_analysis tables "${run}_soups" --only variants
  "$venv/bin/python" -m taugrid_analysis tables "${run}_soups" --only averages
  "$venv/bin/python" -m taugrid_analysis figures "${run}_soups" --paper "$paper" | grep -v needs
fi
if [ "$paper" = tau_jp ]; then  # figure 3, of the pairs that interfere most and least
  measure tau_jp_figure3 "${run}_figure3"
  "$venv/bin/python" -m taugrid_analysis figures "${run}_figure3" --paper "$paper" | grep -v needs
fi
