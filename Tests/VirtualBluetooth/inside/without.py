"""What the program does on a kernel that knows no Bluetooth."""
import os
import re
import time

from harness import test


@test(60)
def no_bluetooth(scene):
    """A kernel without Bluetooth: the modules are not loaded yet."""
    check, program = scene.report.check, scene.program
    if os.path.isdir("/sys/module/bluetooth"):
        scene.report.figure("not tried", "this machine has its modules already")
        return
    program.configure()
    for command in (["scan"], ["read", "00:15:A3:00:55:01"], ["doctor", "--config", program.configuration]):
        done = program.call(*command)
        text = done.stdout + done.stderr
        check(done.returncode not in (0, 64, 124) and done.returncode < 128,
              f"{command[0]} fails without Bluetooth", f"exit code {done.returncode}")
        check(re.search(r"bluetooth|kernel|AF_BLUETOOTH", text, re.I) and "Fatal" not in text,
              f"{command[0]} says why", text[-300:])
    program.start()
    time.sleep(4)
    check(program.running(), "run goes on without Bluetooth")
    check(any(re.search("bluetooth", line, re.I) for _, line in program.log.lines),
          "and says so in its log")
    took = program.stop()
    check(took is not None and took < 5, "and stops within 5 s", str(took))
