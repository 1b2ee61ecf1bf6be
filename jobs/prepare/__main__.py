"""taugrid's data preparation: python jobs/prepare COMMAND."""

import sys

from command import main

sys.exit(main(sys.argv[1:]))
