# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""The pandas frames of a run. A column X_error is the standard error of X, from the evaluation sample."""
