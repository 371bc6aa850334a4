"""What every test shares: Hypothesis profiles, and the S3 endpoints as fixtures.

`fast` is the default and repeats itself exactly; `nox -s deep` runs `deep`, which looks further with a
new seed every time and prints the blob that repeats a failure.
"""

import os

import hypothesis
import pytest

# Suites that live beside the properties, and what tests share, explain their assertions like tests do.
pytest.register_assert_rewrite(
    "fencepost.properties.store_behaviour", "tests.model.counterexamples", "tests.sim.mistakes"
)

pytest_plugins = ["tests.servers.fixtures"]

hypothesis.settings.register_profile(
    "fast", derandomize=True, deadline=None, max_examples=50, print_blob=True, database=None
)
hypothesis.settings.register_profile("deep", deadline=None, max_examples=2000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("FENCEPOST_HYPOTHESIS", "fast"))
