"""The log on Apache Kafka (brokers 4.0 or newer for exactly once)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from weakref import WeakSet

import pyarrow as pa
from confluent_kafka import Consumer

from millstream.log.kafka.asking import PAUSE
from millstream.log.kafka.client import (
    REQUEST_SECONDS,
    Membership,
    checked,
    consumer_config,
    lag_config,
    member_config,
    plain_producer_config,
)
from millstream.log.kafka.credentials import of_no_member
from millstream.log.kafka.fetchers import Fetchers
from millstream.log.kafka.former_groups import take_over
from millstream.log.kafka.instance_member import InstanceMember
from millstream.log.kafka.join_group import Service, join_group
from millstream.log.kafka.lag import LagOf
from millstream.log.kafka.member import KafkaMember, MemberContext
from millstream.log.kafka.member_writer import transact_all
from millstream.log.kafka.patience import alone, sharing
from millstream.log.kafka.plain_producers import PlainProducers
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.kafka.reader import KafkaReader, ReaderContext
from millstream.log.kafka.shared_looks import SharedLooks
from millstream.log.kafka.single_reads import KEPT_SECONDS, SingleReads
from millstream.log.kafka.topics import Topics
from millstream.log.kafka.transactions import Transactions, WriterContext
from millstream.log.kafka.writer import KafkaWriter
from millstream.log.log import (
    Appended,
    Fetched,
    Member,
    Participant,
    Reader,
    Result,
    Topic,
    Writer,
)
from millstream.log.log import TopicPartition as Place
from millstream.log.membership import SoleMember
from millstream.log.usage import TopicUsage
from millstream.log.watchers import OnNews, Watchers, changed, grown
from millstream.model.errors import (
    MillstreamError,
    UnavailableError,
)

POLL_INTERVAL_MS = 3_000
"""How often queries without news look at their topics. A client that has stopped fetching without
a word, and a topic that was deleted elsewhere, are noticed by nothing else."""
_RELEASE_SECONDS = 20.0
"""How long other instances may take to release the tasks of a query that was dropped; the brokers
remove a dead one sooner."""


class KafkaLog:
    """Topics and positions of a cluster; reads see committed records, and this process's own at
    once.

    >>> log = KafkaLog("127.0.0.1:9092")
    """

    def __init__(
        self,
        servers: str,
        *,
        namespace: str = "",
        settings: Mapping[str, str] | None = None,
        membership: Membership | None = None,
    ) -> None:
        """`servers`: host:port, comma separated. `namespace` is the prefix of the names of all
        groups and writers, which are unique in the cluster. `settings`: more settings for every
        client, such as `security.protocol`; StatementError when they cannot be used. `membership`:
        how the tasks of queries are shared with other processes; without it, this one has them all,
        and no other process may write to the topics of the namespace."""
        self._namespace = namespace
        self._membership = membership
        extra = checked(settings or {})
        self._servers, self._extra = servers, extra
        self._topics = Topics(servers, extra)
        self._written: dict[Place, int] = {}
        self._watchers = Watchers()
        self._fetchers = Fetchers(
            consumer_config(servers, "_millstream_reader", extra), self._watchers.call
        )
        looks = SharedLooks(
            self._topics.look,
            lambda places: self._watchers.call(grown(topic for topic, _ in places)),
        )
        self._reading = ReaderContext(self._topics, self._written, looks, self._shared)
        self._single_reads = SingleReads(
            self._reading, self._fetchers.open(kept_seconds=KEPT_SECONDS)
        )
        self._members: WeakSet[KafkaMember] = WeakSet()
        self._moved: dict[str, set[Place]] = {}
        """The positions that this process has committed, by group."""
        self._context = WriterContext(
            servers,
            namespace,
            extra,
            self._topics.check,
            self._committed,
            self._appended,
            self._outsider,
        )
        self._pool = ProducerPool(self._open_transactions)
        """The producers of the members."""
        self._plain = PlainProducers(
            plain_producer_config(servers, extra),
            self._topics.check,
            self._appended,
            sharing().commit_seconds,
        )
        if membership is not None:
            self._plain.open_ahead()
        self._lock = threading.Lock()
        self._joining = threading.Lock()
        self._instance: InstanceMember | None = None
        """The membership of this process, for all its queries; from the first one on."""
        self._credential: bytes | None = None
        """The credential of a consumer that is no member of any group."""
        self._closed = False

    def create_topic(self, topic: Topic) -> None:
        """Raises ConflictError when the name is taken."""
        (result,) = self._topics.create([topic])
        if isinstance(result, MillstreamError):
            raise result

    def create_topics(self, topics: Sequence[Topic]) -> list[Topic | MillstreamError]:
        """See `Log`."""
        return self._topics.create(topics)

    def delete_topic(self, name: str) -> None:
        """Delete a topic. The broker drops the positions on it a little later; this call waits for
        that in the groups that this process has used."""
        self._fetchers.forget(name)
        for topic_partition in [
            topic_partition for topic_partition in self._written if topic_partition[0] == name
        ]:
            del self._written[topic_partition]
        self._topics.delete(name)
        deadline = time.monotonic() + REQUEST_SECONDS
        for group, topic_partitions in tuple(self._moved.items()):
            gone = {
                topic_partition
                for topic_partition in topic_partitions
                if topic_partition[0] == name
            }
            self._moved[group] = topic_partitions - gone
            while gone and self._topics.groups.positions(group, gone):
                if time.monotonic() > deadline:
                    raise UnavailableError(f"Positions of '{group}' on topic '{name}' remain")

    def configure_topic(self, name: str, changes: Mapping[str, str | None]) -> None:
        """See `Log`; the broker decides what it accepts."""
        self._topics.configure(name, changes)

    def usage(self, names: Collection[str]) -> Mapping[str, TopicUsage]:
        """See `Log`; without sizes, which the client cannot ask for."""
        return self._topics.usage(names)

    def topic(self, name: str) -> Topic | None:
        """Describe one topic."""
        return self._topics.describe(name)

    def cluster_id(self) -> str:
        """The id of this cluster."""
        return self._topics.cluster_id()

    def topics(self) -> tuple[Topic, ...]:
        """All topics, by name."""
        found = self._topics.with_settings(self._topics.names())
        return tuple(found[name] for name in sorted(found))

    def describe(self, names: Collection[str]) -> dict[str, Topic]:
        """See `Log`."""
        return self._topics.described(names)

    def seen(self, names: Collection[str]) -> dict[str, Topic | None]:
        """Topics as of the last metadata request."""
        return self._topics.sightings.seen(names)

    def reader(self, *, alone: bool = False) -> Reader[pa.Table]:
        """A reader of what the main consumer fetches for all; `alone`, one with its own."""
        main = None if alone else self._fetchers.main
        return KafkaReader(self._reading, main, self._fetchers.open)

    @property
    def consumers(self) -> int:
        """How many consumers currently fetch records for readers."""
        return self._fetchers.running

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[pa.Table]:
        """Committed records from `offset` on."""
        self._topics.purges.settle((topic, partition))
        return self._single_reads.read((topic, partition), offset, max_records)

    def start_offset(self, topic: str, partition: int) -> int:
        """The first retained offset."""
        self._topics.purges.settle((topic, partition))
        return self._topics.offset((topic, partition), end=False)

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset after the last readable record; waits for those of this process."""
        topic_partition = (topic, partition)
        deadline = time.monotonic() + REQUEST_SECONDS
        while (found := self._topics.offset(topic_partition, end=True)) < self._written.get(
            topic_partition, 0
        ):
            if time.monotonic() > deadline:
                raise UnavailableError(f"The last transaction on topic '{topic}' is still open")
        return found

    def end_offsets(self, topic_partitions: Collection[Place]) -> dict[Place, int]:
        """The ends of many partitions in one request."""
        found = self._topics.ends(topic_partitions)
        return {
            topic_partition: max(end, self._written.get(topic_partition, 0))
            for topic_partition, end in found.items()
        }

    def written_end(self, topic: str, partition: int) -> int:
        """The offset after the last record of all, open transactions included."""
        return self._topics.offset((topic, partition), end=True, committed=False)

    def written_ends(self, topic_partitions: Collection[Place]) -> dict[Place, int]:
        """The same of many partitions, in one request."""
        return self._topics.written(topic_partitions)

    def truncate(self, topic: str, partition: int, before: int) -> None:
        """Delete records with an offset below `before`: asynchronously on the cluster, at once for
        callers that read the partition's start, or single records, from this log."""
        self._topics.check((topic, partition))
        self._topics.purges.want((topic, partition), before)

    def positions(self, group: str, topic_partitions: Collection[Place] = ()) -> dict[Place, int]:
        """The committed positions of a group, of `topic_partitions` alone where they are given."""
        return self._topics.groups.positions(self._namespace + group, topic_partitions)

    def vacant(self, group: str) -> bool:
        """Whether no instance runs a query; waits for transactions that may still move its
        positions."""
        if self._membership is None:
            return True
        if not self._instance_member(self._membership).vacant(group):
            return False
        self._topics.groups.positions(self._namespace + group)
        return True

    def forget_group(self, group: str) -> None:
        """Drop a group's positions, once no instance has tasks of its query any more."""
        name = self._namespace + group
        deadline = time.monotonic() + _RELEASE_SECONDS
        while not self.vacant(group):
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"Other instances still hold tasks of '{group}'",
                    hint="They release them when they have read the statement, or end.",
                )
            time.sleep(PAUSE)
        self._moved.pop(name, None)
        self._topics.groups.forget(name)

    def writer(self, identity: str, *, size: int = 0) -> Writer[pa.Table]:
        """Open the writer of `identity`, fencing earlier ones."""
        return KafkaWriter(identity, self._context, patience=alone(size))

    def send(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Append outside of transactions."""
        self._plain.send(appended)

    marker_offsets = 1
    """See `Log`."""

    private = False
    """See `WatchedLog`."""

    @property
    def commits_together(self) -> bool:
        """See `Log`: the members of this process share their producers."""
        return self._membership is not None

    def transact_all(self, participants: Sequence[Participant[pa.Table]]) -> list[Result]:
        """See `Log`: one transaction for the members of this process, or for one writer."""
        writer = participants[0].writer if participants else None
        if isinstance(writer, KafkaWriter) and all(one.writer is writer for one in participants):
            return writer.transact_all(participants)
        return transact_all(self._pool, participants)

    def _open_transactions(self, number: int) -> Transactions:
        assert self._membership is not None
        identity = f"{self._membership.incarnation}.{number}"
        return Transactions(identity, self._context, sharing())

    def join(self, group: str, partitions: int) -> Member[pa.Table]:
        """Share the tasks of a query; CorruptionError (code E-PARTITIONS) when other members use
        another count."""
        membership = self._membership
        if membership is None:
            return SoleMember(self, group, partitions)
        context = self._member_context(membership)
        name = self._namespace + group
        self._take_over(name)
        asking = lag_config(self._servers, name, self._extra)
        made = KafkaMember(group, partitions, context, LagOf(asking, self._topics.look))
        self._members.add(made)
        return made

    def _take_over(self, name: str) -> None:
        """Make the group of a query that an earlier version has created one without members."""
        leases = f"{name}-leases"
        if self._topics.described([leases]):
            former = Membership(protocol="consumer")
            config = member_config(self._servers, name, former, self._extra)
            take_over(self._topics.groups, name, config, leases)
            self._topics.delete(leases)

    def _member_context(self, membership: Membership) -> MemberContext:
        def open_transactions(group: str, size: int) -> Transactions:
            identity = f"{group}.{membership.incarnation}"
            return Transactions(identity, self._context, sharing(size))

        return MemberContext(
            self._instance_member(membership),
            self._namespace,
            self._pool,
            self._plain,
            open_transactions,
            self._outsider,
        )

    def _instance_member(self, membership: Membership) -> InstanceMember:
        with self._joining:
            if self._closed:
                raise UnavailableError("The log is closed")
            if self._instance is None:
                service = Service(self._servers, self._service, membership, self._extra)
                self._instance = join_group(
                    service,
                    self,
                    self._topics,
                    self._pool,
                    self._plain,
                    lambda group: self._watchers.call(changed(group)),
                )
                self.on_news(self._instance.on_news)
            return self._instance

    @property
    def _service(self) -> str:
        """The group whose members are the instances of the service. No query has this id: a hyphen
        does not begin one."""
        return f"{self._namespace}-instances"

    def warmups(self) -> Mapping[str, frozenset[int]]:
        """Of each query, the tasks whose state is to be brought up to date here, because they are
        to be processed here."""
        return {} if self._instance is None else self._instance.warmups()

    poll_interval_ms = POLL_INTERVAL_MS
    """See `WatchedLog`."""

    def on_news(self, callback: OnNews) -> Callable[[], None]:
        """See `WatchedLog`."""
        return self._watchers.add(callback)

    def maintain(self) -> bool:
        """Nothing to do: the brokers maintain their files."""
        return False

    def close(self) -> None:
        """Release everything; idempotent."""
        if not self._closed:
            self._closed = True
            # First: the members of a static name give up nothing when its process ends.
            if self._instance is not None:
                self._instance.close()
            for member in tuple(self._members):
                member.close()
            self._fetchers.close()
            self._pool.close()
            self._plain.close()

    def _shared(self, topic_partition: Place) -> bool:
        """Whether other processes write to a topic too. If not, what this process has written
        determines where a partition ends."""
        if self._membership is not None:
            return True
        return not self._namespace or not topic_partition[0].startswith(self._namespace)

    def _appended(self, ends: Mapping[Place, int]) -> None:
        with self._lock:
            for topic_partition, end in ends.items():
                self._written[topic_partition] = max(end, self._written.get(topic_partition, 0))
        self._watchers.call(grown(topic for topic, _ in ends))

    def _outsider(self, group: str) -> bytes:
        with self._lock:
            if self._credential is None:
                asked = Consumer(consumer_config(self._servers, "_millstream_reader", self._extra))
                try:
                    self._credential = asked.consumer_group_metadata()
                finally:
                    asked.close()
            return of_no_member(self._credential, group)

    def _committed(self, group: str, topic_partitions: Collection[Place]) -> None:
        self._moved.setdefault(group, set()).update(topic_partitions)
