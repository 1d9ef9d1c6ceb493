"""Running tests and saying how they went.

Each line for the host begins with "@ ", since the kernel writes to the same console.
"""
import time
import traceback

TESTS, LIMITS = {}, {}


def test(short, full=None):
    """Registers a test under the name of its function, in the order of the files.

    `short` and `full` are the seconds after which it is taken for hung, in either length.
    """
    def register(function):
        name = function.__name__.replace("_", "-")
        TESTS[name], LIMITS[name] = function, (short, full or short)
        return function
    return register


def say(line):
    print(f"@ {line}", flush=True)


class Report:
    def __init__(self):
        self.failed = 0

    def check(self, good, claim, detail=""):
        """One claim about the program; `detail` says what was seen instead."""
        if good:
            say(f"  ok      {claim}")
        else:
            self.failed += 1
            say(f"  FAILED  {claim}{': ' if detail else ''}{detail}")
        return bool(good)

    def figure(self, what, value):
        say(f"          {what}: {value}")


def run(name, scene):
    """Runs one test; whether it passed."""
    begun = time.monotonic()
    report = Report()
    say(f"begin {name}")
    try:
        with scene(name, report) as ready:
            TESTS[name](ready)
    except Exception as error:  # the others shall run all the same
        report.check(False, "the test runs to its end", repr(error))
        for line in traceback.format_exc().splitlines()[-6:]:
            say(f"          {line}")
    say(f"end {name} {'FAILED' if report.failed else 'passed'} {time.monotonic() - begun:.0f}")
    return not report.failed
