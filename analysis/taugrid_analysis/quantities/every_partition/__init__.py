# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Every partition of a few tasks, and one task forgotten by each of their bases (paper 2, tables 4 to 14).

/every_partition/METHOD/R/accuracy [partition, member], a share; nearest, found, one_shot, tuned [held_out,
partition]: tasks outside with the nearest basis; together_tuned [partition, held_out]: with all bases of the
partition at once, merged (appendix C.4). /partition_negation/METHOD/R/target and control [cluster].
"""

from __future__ import annotations

from taugrid_analysis.quantities.negation import CONTROL_ROWS, CURVES, NUMBERS, WORDS
from taugrid_analysis.run.group import ALPHA, CHOSEN, ROWS, Group, Variable, alike

GROUPS = {
    "every_partition": Group(
        {
            "member": Variable(("member",)),
            "labels": Variable(("partition", "member")),
            "cluster": Variable(("cluster", "member")),
            "validation_accuracy": Variable(("partition", "alpha", "member")),
            "accuracy": Variable(("partition", "member")),
            "other": Variable(("held_out",), needed=False),
        }
        | alike(("partition",), *CHOSEN)
        | alike(("held_out", "cluster"), "cosine", needed=False)
        | alike(("held_out", "cluster", "held_alpha"), "held_validation", "held_test", needed=False)
        | alike(
            ("held_out", "partition"),
            *("nearest", "found", "one_shot", "tuned", "chosen_alpha"),
            needed=False,
        )
        | alike(("partition", "held_out", "held_alpha"), "together_validation", "together_test", needed=False)
        | alike(
            ("partition", "held_out"), "together_one_shot", "together_tuned", "together_alpha", needed=False
        )
        | ROWS,
        ALPHA,
        words={"merge_out": "how the bases became one"},
        numbers={"threshold": "the cosine from which on a basis is found"},
        by_method=True,
    ),
    "partition_negation": Group(
        alike(("negated_cluster", "alpha"), *CURVES)
        | alike(("negated_cluster",), "chosen_alpha", "target", "control", "cosine")
        | {"member": Variable(("member",)), "cluster": Variable(("negated_cluster", "member"))}
        | CONTROL_ROWS,
        ALPHA,
        words=WORDS | {"task": "the task that was forgotten"},
        numbers=NUMBERS,
        by_method=True,
    ),
}
