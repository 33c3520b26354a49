"""The instances of one service: membership, reads of remote state, and aligned snapshots."""
