"""Entry point of both `python3 report/espalier_report` and `python3 -m espalier_report`."""

import pathlib
import sys

# When run as a folder, python puts the folder itself on the path; the package is found from its parent.
sys.path[0] = str(pathlib.Path(__file__).resolve().parent.parent)

from espalier_report.cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
