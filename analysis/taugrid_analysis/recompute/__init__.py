# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""A run's numbers again, from the run folder alone, in plain PyTorch and transformers.

Shares no code with the program that measured them: it is the reading of results.h5 that anyone can repeat,
and the oracle of the program's own tests.
"""
