"""The broker away, the agent killed, two agents, a meter that is gone."""

import signal
import time

from charges import one_completed
from stage import (
    MAC, Agent, Broker, Listener, Meter, check, configuration, equal, near, seconds, test)

STATUS = "usbmeter/gateway/bench-1/status"
BASE = f"usbmeter/meter/{MAC}/"


def back_within(stage, broker, expected, limit=10.0):
    """Waits until the broker has all these retained topics again. Returns the messages and the time."""
    start = time.monotonic()
    retained = {}

    def complete():
        retained.clear()
        retained.update(broker.retained())
        return all(topic in retained for topic in expected)
    try:
        stage.wait("all", complete, limit)
    except Exception as error:
        missing = [topic for topic in expected if topic not in retained]
        check(not missing, f"retained again within {limit:g} s of the broker's return; missing", missing)
        raise error
    return retained, time.monotonic() - start


@test("broker-away")
def broker_away(stage):
    broker = Broker(stage, start=False)
    agent = Agent(stage, configuration(
        stage, [("meter", "um25c")], broker, sessions="start_delay: 2 s, end_delay: 5 s"))
    meter = Meter(stage, "meter", "um25c", (12, 1.2, 50, 6, 120), voltage=5.147, noise=0.005)
    agent.start()
    stage.sleep(5)

    broker.start()
    states = [STATUS, BASE + "availability", BASE + "counters", BASE + "session/current"]
    retained, first = back_within(stage, broker, states)
    equal([retained[t].payload for t in states[:2]], ["online", "online"], "status and availability")
    listener = Listener(broker)

    stage.wait("a session runs", lambda: any(
        m.json["state"] == "running" for m in listener.of("session/current", MAC)), 30)
    running = listener.of("session/current", MAC)[-1].json["sessionId"]
    # A connection that has held for half a minute makes the next pauses short.
    stage.sleep(18)
    broker.kill()
    stage.sleep(5)
    broker.start()
    retained, second = back_within(stage, broker, states)
    current = retained[BASE + "session/current"].json
    equal((current["state"], current["sessionId"]), ("running", running), "the session runs on")
    listener = Listener(broker)

    summary = one_completed(agent, listener, 60)
    equal(summary["sessionId"], running, "the session that ended")
    stage.sleep(0.5)
    sessions = [BASE + "session/last", BASE + "sessions/" + running]
    equal([broker.retained()[topic].json for topic in sessions], [summary] * 2, "the summaries")

    # And again with the session complete: the broker has forgotten it, too.
    stage.sleep(8)
    broker.kill()
    stage.sleep(3)
    broker.start()
    retained, third = back_within(stage, broker, states + sessions)
    equal([retained[topic].json for topic in sessions], [summary] * 2, "the summaries, again")

    lines = agent.lines()
    _, truth = meter.truth()
    losses = [text for level, text in lines if level == "warning" and "Bench" not in text]
    returns = [text for _, text in lines if "connected to the broker" in text]
    stage.note(f"all retained again after {first:.1f}, {second:.1f} and {third:.1f} s")
    energy = summary["energyWh"] / truth["charge_energy_wh"] - 1
    stage.note(f"energy {energy:+.2%}")
    check(abs(energy) < 0.01, f"the recording was disturbed: energy is off by {energy:+.2%}", summary)
    equal(summary["gaps"], [], "gaps of the recording")
    equal(len(losses), 3, f"lines that tell of three losses of the broker: {losses}")
    equal(len(returns), 3, f"lines that tell of three returns of the broker: {returns}")
    check(all("back after" in text for text in returns), "how long the broker was away", returns)


@test("killed-in-session")
def killed_in_session(stage):
    broker = Broker(stage)
    listener = Listener(broker)
    agent = Agent(stage, configuration(
        stage, [("meter", "um25c")], broker, sessions="start_delay: 2 s, end_delay: 5 s"))
    # The agent is there first, so that its clocks for storing and for publishing are out of step.
    agent.start()
    stage.sleep(4)
    meter = Meter(stage, "meter", "um25c", (3, 2, 90, 6, 30), voltage=12.1, noise=0.005)

    # Killed just after the totals have been published in the middle of the session.
    def middle():
        totals = [m.json["energyTotalWh"] for m in listener.of("counters", MAC)]
        return totals[-1] > 0 if totals else False
    stage.wait("counters in the middle of a session", middle, 90)
    agent.program.kill()
    last_live = seconds(listener.of("live", MAC)[-1].json["ts"])
    stage.wait("the last will", lambda: listener.of("status")[-1].payload == "offline", 5)
    stage.sleep(2)
    agent.start()
    restarted = time.time()
    stage.wait("the interrupted session in session/last",
               lambda: listener.of("session/last", MAC), 10)
    first = listener.of("session/last", MAC)[-1].json
    equal(first["endReason"], "interrupted", "endReason")
    ended = seconds(first["endedAt"])
    check(last_live - 11 <= ended <= last_live + 0.01,
          f"it ends at its last stored reading, found {ended - last_live:+.1f} s from the last one")

    second = stage.wait(
        "the rest of the charge as a second session",
        lambda: [m.json for m in listener.of("session/last", MAC)
                 if m.json["sessionId"] != first["sessionId"]], 90)[-1]
    equal(second["endReason"], "currentStopped", "endReason of the second session")
    stage.sleep(0.5)
    equal([(s["sessionId"], s["endReason"]) for s in agent.sessions()],
          [(first["sessionId"], "interrupted"), (second["sessionId"], "currentStopped")],
          "the sessions in the list")
    published = [m.topic for m in listener.all() if "/sessions/" in m.topic]
    equal(len(set(published)), 2, f"published sessions {published}")
    agent.program.end()
    _, truth = meter.truth()

    # What flowed while the agent was away is in neither, and nothing is in both.
    check(seconds(second["startedAt"]) >= restarted, "the second begins after the restart")
    lost = (seconds(second["startedAt"]) - ended) * 12 * 2 / 3600
    both = first["energyWh"] + second["energyWh"]
    near(both, truth["charge_energy_wh"] - lost, 0.03 * truth["charge_energy_wh"],
         "energy of both sessions and of the time between them")
    totals = [m.json["energyTotalWh"] for m in listener.of("counters", MAC)]
    stage.note(f"killed {last_live - ended:.1f} s after what was stored last; "
               f"totals {', '.join(map(str, totals))} Wh")
    equal(totals, sorted(totals), "the totals never fall")
    check(totals[-1] <= truth["energy_wh"] * 1.01, "the totals count nothing twice", totals, truth)


@test("killed-after-session")
def killed_after_session(stage):
    broker = Broker(stage, start=False)
    agent = Agent(stage, configuration(
        stage, [("meter", "um34c")], broker, sessions="start_delay: 2 s, end_delay: 4 s"))
    Meter(stage, "meter", "um34c", (2, 1, 10, 2, 90))
    agent.start()
    completed = stage.wait("a completed session", agent.completed, 40)
    agent.program.kill()
    broker.start()
    listener = Listener(broker)
    equal(agent.completed(), completed, "the session after the kill")
    agent.start()
    one_completed(agent, listener, 15)
    stage.sleep(2)
    topic = f"{BASE}sessions/{completed[0]['sessionId']}"
    retained = broker.retained()
    check(topic in retained, f"{topic} is retained", sorted(retained))
    equal([retained[topic].json, retained[BASE + "session/last"].json], completed * 2, "summaries")
    equal(agent.sessions(), completed, "sessions in the list")
    last = {m.payload for m in listener.of("session/last", MAC)}
    equal(len(last), 1, "different summaries on session/last")
    equal(agent.complaints()[1:], [], "complaints after the first, of the missing broker")


@test("interrupted-by-stop")
def interrupted_by_stop(stage):
    """SIGTERM in the middle of a session: the receipt is at the broker before the end."""
    broker = Broker(stage)
    agent = Agent(stage, configuration(stage, [("meter", "tc66c")], broker))
    Meter(stage, "meter", "tc66c", (1, 1, 60, 2, 5))
    agent.start()
    stage.wait("a session", agent.sessions, 20)
    code, took = agent.program.end(5)
    equal(code, 0, "exit code")
    sessions = agent.sessions()
    equal([s["endReason"] for s in sessions], ["interrupted"], "reasons of the sessions")
    retained = broker.retained()
    equal(retained[BASE + "session/last"].json, sessions[0], "session/last")
    equal(retained[BASE + "session/current"].json["state"], "idle", "session/current")
    equal(retained[STATUS].payload, "offline", "status")
    stage.note(f"ended in {took:.2f} s")


@test("second-agent")
def second_agent(stage):
    first = Agent(stage, configuration(stage, [("meter", "um25c")]), "first").start()
    second = stage.run("run", "--config", first.path)
    equal(second.code, 1, f"exit code of {second!r}")
    check("data" in second.err and str(stage.folder) in second.err and
          any(word in second.err for word in ("another", "already", "in use")),
          "a message that names the folder and the cause", second)
    equal(len(second.err.strip().splitlines()), 1, f"lines of {second!r}")
    check(first.program.runs, "the first agent runs on")
    # Reading is free to all.
    equal(stage.run("sessions", "list", "--config", first.path).code, 0, "sessions beside an agent")
    equal(first.program.end(5)[0], 0, "exit code of the first")
    third = Agent(stage, configuration(stage, [("meter", "um25c")]), "third").start()
    third.program.kill()
    Agent(stage, configuration(stage, [("meter", "um25c")]), "fourth").start()


@test("meter-unreachable")
def meter_unreachable(stage):
    """The meter falls silent for good: its session ends by the clock."""
    broker = Broker(stage)
    listener = Listener(broker)
    agent = Agent(stage, configuration(
        stage, [("meter", "um25c")], broker, sessions="start_delay: 2 s, gap_limit: 10 s"))
    Meter(stage, "meter", "um25c", (1, 1.2, 110, 4, 5), power_loss="12,90", power_loss_as="silence")
    agent.start()
    summary = one_completed(agent, listener, 40)
    arrived = listener.of("session/last", MAC)[-1].time
    last_live = seconds(listener.of("live", MAC)[-1].json["ts"])
    stage.note(f"ended {arrived - last_live:.1f} s after the last reading")
    equal(summary["endReason"], "meterUnreachable", "endReason")
    near(seconds(summary["endedAt"]), last_live, 0.01, "the end is the last reading")
    check(10 <= arrived - last_live <= 13, f"it ended {arrived - last_live:.1f} s after it")
    equal(len(agent.sessions()), 1, "sessions")
    # Half a minute of silence makes it offline.
    stage.wait("availability offline",
               lambda: listener.of("availability", MAC)[-1].payload == "offline", 30)
    check(len(agent.complaints()) == 1, "one line of the log tells of the loss", agent.complaints())


@test("signals")
def signals(stage):
    """SIGINT is as good as SIGTERM, and a second one ends at once."""
    agent = Agent(stage, configuration(stage, [("meter", "um25c")])).start()
    stage.wait("the agent runs", lambda: "is not there" in agent.program.log, 10)
    code, _ = agent.program.end(5, signal.SIGINT)
    equal(code, 0, "exit code after SIGINT")
    # A broker that accepts and never answers holds the regular end up.
    broker = Broker(stage)
    agent = Agent(stage, configuration(stage, [("meter", "um25c")], broker), "slow").start()
    stage.wait("connected", lambda: "connected to the broker" in agent.program.log, 10)
    broker.program.send(signal.SIGSTOP)
    agent.program.send(signal.SIGTERM)
    stage.sleep(0.3)
    check(agent.program.runs, "the agent waits for the broker")
    code, took = agent.program.end(5)
    equal((code, took < 1), (128 + 15, True), f"exit code, and at once, after a second SIGTERM ({took:.1f} s)")
    agent = Agent(stage, agent.path.read_text(), "patient").start()
    broker.program.send(signal.SIGCONT)
    stage.wait("connected", lambda: "connected to the broker" in agent.program.log, 10)
    broker.program.send(signal.SIGSTOP)
    code, took = agent.program.end(5)
    broker.program.send(signal.SIGCONT)
    stage.note(f"with a broker that stands still it ended in {took:.2f} s")
    equal(code, 0, "exit code with a broker that stands still")
