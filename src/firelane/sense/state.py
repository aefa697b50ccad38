"""What a bank keeps of every sensor, by columns, and the numbers of its models; without their machine code."""

VERSION = 2  # of these formulas
LAST_VALUE, KALMAN = 0, 1
MODELS = ("last-value", "kalman")

# The columns of a bank's state; a row is a sensor.
TIME, VALUE, LEVEL, SLOPE, VARIANCE, COVARIANCE, SLOPE_VARIANCE, WANDER, NOISE, SIDE = range(10)
FIELDS = 10

# What becomes of a reading.
KEPT, SENT, SENT_WHOLE = 0, 1, 2
