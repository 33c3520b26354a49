"""Logical plans cut into sub-topologies that are joined by repartition topics.

* `split`: the cut. `topology`: its result. `show`: its text.
* `foreign_key`: a foreign key join as `SubscriptionSend`, `SubscriptionStoreJoin` and
  `SubscriptionResolve`, in three sub-topologies (KIP-213).
"""
