# SPDX-FileCopyrightText: 2026 taugrid contributors
# SPDX-License-Identifier: Apache-2.0
"""python -m taugrid_analysis"""

import sys

from taugrid_analysis.cli import main

sys.exit(main())
