"""Moves in which a component dies at a moment chosen by chance. MOOR_ROUNDS and MOOR_SEED say how many and which."""
import os
import random
import sys

from chaos import run_rounds
from moving import Cluster
from support import Place, need, run_tests

ROUNDS = int(os.environ.get("MOOR_ROUNDS", "10"))
SEED = os.environ.get("MOOR_SEED", str(random.SystemRandom().randrange(10**6)))


def test_whatever_dies_whenever_the_move_ends_where_the_tickets_say_and_no_write_is_lost():
    print(f"  seed {SEED}")
    with Place() as place, Cluster(place) as cluster:
        run_rounds(cluster, SEED, ROUNDS)


if __name__ == "__main__":
    need("ip")
    run_tests(sys.modules[__name__])
