"""Every theorem of the paper as a function that returns its evidence; the same functions certify a run of yours.

verify       every claim on hard and random data        catalogue    the list of claims
certify      what is guaranteed for a learner and a stream of your own
draw_map     the map of methods, with the error measured on every line
"""

from remanence.certificates.catalogue import Claim, catalogue
from remanence.certificates.certificate import Certificate
from remanence.certificates.certify import certify
from remanence.certificates.map_picture import draw_map
from remanence.certificates.verify import verify

__all__ = ["Certificate", "Claim", "catalogue", "certify", "draw_map", "verify"]
