"""Settings of the whole test run."""

import signal


def pytest_configure() -> None:
    """Children start with the dispositions of a terminal's: under nohup, SIGHUP would be ignored by all of them."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
