"""From a shard to the coordinator: reports up, instructions back. Beside the shard, never in it.

The shard does not know this package exists. Without a coordinator it is not even imported.
"""
