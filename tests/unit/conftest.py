"""Property tests: no deadline per example, because a busy machine is not a bug; what fails can be replayed."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fencepost",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("fencepost")
