"""A running guest moves between two nodes with its volume attached to both. Every acknowledged block is on the volume,
every read was right, no gap, no repeat, and nothing of the source's comes through once the destination has the volume."""
import contextlib
import sys

from moving import Cluster, Intruder, Migration, Volume, kill
from support import Place, need, run_tests, wait_until


class Scene:
    """A cluster, a volume on node-1 and a guest that uses it."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:  # nothing stays when the beginning fails
            place = stack.enter_context(Place())
            cluster = stack.enter_context(Cluster(place))
            volume = Volume(cluster)
            volume.attach("node-1")
            migration = stack.enter_context(Migration(cluster, volume, place.directory))
            migration.wait_beats(migration.source, 50)
            self.stack = stack.pop_all()
        return cluster, volume, migration

    def __exit__(self, *_):
        self.stack.close()


def confirm(volume, migration, beats=100):
    """The source's ticket leaves: the volume is the destination's, by the very process that was the standby."""
    standby = migration.standby
    volume.let_go("node-1")
    volume.wait_settled("node-2")
    migration.wait_beats(migration.destination, beats)
    assert volume.engine_pids("node-2") == standby, "clients that connect again hide an engine that died"
    print(f"  {migration.check('node-2')} blocks, downtime {migration.source.migration()['downtime']} ms")


def test_a_guest_moves_with_its_volume_and_its_first_write_takes_it_over():
    with Scene() as (_, volume, migration):
        migration.prepare()
        assert volume.phase() == "ready", volume.status()
        migration.migrate()
        migration.finish()
        migration.wait_beats(migration.destination, 100)
        assert volume.phase() == "activated", volume.status()
        intruder = Intruder(volume.socket("node-1"), volume.name)  # kept waiting, not served
        migration.wait_beats(migration.destination, 50)
        confirm(volume, migration)
        said = intruder.verdict()
        assert "wrote" not in said and intruder.process.returncode != 0, said
        assert volume.settle_replicas() and len(volume.settle_replicas()) == 3, volume.settle_replicas()


def test_a_client_that_pauses_before_switchover_asks_for_activation_itself():
    with Scene() as (_, volume, migration):
        migration.prepare()
        migration.migrate(pause_before_switchover=True)
        migration.source.wait_migration("pre-switchover")
        volume.ask_for("node-2", activate="true")
        volume.wait_phase("activated")
        migration.source.monitor("migrate-continue", state="pre-switchover")
        migration.finish()
        confirm(volume, migration)


def test_a_destination_that_dies_leaves_the_guest_where_it_was():
    with Scene() as (_, volume, migration):
        migration.prepare()
        migration.migrate(pause_before_switchover=True)
        migration.source.wait_migration("pre-switchover")
        migration.destination.kill()
        volume.let_go("node-2")
        migration.source.give_up()
        volume.wait_settled("node-1")
        migration.wait_beats(migration.source, 100)
        print(f"  {migration.check('node-1')} blocks")


def test_an_activation_without_a_write_is_undone_as_if_it_had_not_been():
    with Scene() as (_, volume, migration):
        source = volume.engine_pids("node-1")
        migration.prepare()
        volume.ask_for("node-2", activate="true")
        volume.wait_phase("activated")
        migration.destination.kill()
        volume.let_go("node-2")
        volume.wait_settled("node-1")
        migration.wait_beats(migration.source, 100)
        assert volume.engine_pids("node-1") == source, "the guest's session did not go on"
        print(f"  {migration.check('node-1')} blocks")


def test_a_replica_that_drops_in_the_middle_costs_a_copy_and_no_data():
    with Scene() as (_, volume, migration):
        migration.prepare()
        kill(volume.replica_pid("node-3"))
        wait_until(lambda: len(volume.settle_replicas()) == 2, "the loss to be recorded")
        migration.migrate()
        migration.finish()
        confirm(volume, migration)
        assert volume.status()["robustness"] == "degraded", volume.status()


if __name__ == "__main__":
    need("nbdcopy", "cpio", "qemu-io", "ip")
    run_tests(sys.modules[__name__])
