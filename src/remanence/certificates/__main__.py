"""`python -m remanence.certificates` prints the list of claims as Markdown."""

import sys

from remanence.certificates.document import claims_page

sys.stdout.write(claims_page())
