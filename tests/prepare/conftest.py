"""Makes the modules of jobs/prepare importable, as they are when `python jobs/prepare` runs."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "jobs/prepare"))
