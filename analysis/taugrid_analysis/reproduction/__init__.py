# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""Reproduction: a recorded reference run of an experiment, and whether another run finds its numbers again.

recorded/NAME.json has the tables of one finished run: every number with all its digits and its error.
"""
