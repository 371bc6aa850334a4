"""The same kernels on Spark: sessions that start with a clear word or not at all, and exploration.

start, SparkAway (no Java, no pyspark, no master: one sentence each), SparkEngine.
"""

from fencepost.sim.spark.reachability import SparkEngine
from fencepost.sim.spark.session import SparkAway, start
