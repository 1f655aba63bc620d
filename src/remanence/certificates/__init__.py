"""Claims of the paper as functions that return numerical evidence, and certificates for runs of the user's own.

verify       check every claim on hard and random data
catalogue    the list of claims
certify      check which guarantees hold for a learner and a stream
draw_map     the map of methods, with the error measured on every edge
"""

from remanence.certificates.catalogue import Claim, catalogue
from remanence.certificates.certificate import Certificate
from remanence.certificates.certify import certify
from remanence.certificates.map_picture import draw_map
from remanence.certificates.verify import verify

__all__ = ["Certificate", "Claim", "catalogue", "certify", "draw_map", "verify"]
