"""A whole charge, from the meter to the broker, without faults and with them."""

from stage import MAC, Agent, Broker, Listener, Meter, check, configuration, equal, near, seconds, test

INTERVAL = 0.5
SUMMARY_KEYS = """
    v sessionId macAddress meterName modelType gatewayId startedAt endedAt durationS energyWh chargeMah
    averagePower peakPower peakCurrent minVoltage maxVoltage maxTemperatureC endReason label samples
    complete revision curveSha256 energySource energySourceReason energyIntegratedWh
    chargeIntegratedMah energyCounterWh chargeCounterMah rejectedFrames droppedReadings gaps
    clockTrusted softwareVersion""".split()
LIVE_KEYS = """
    v ts seq voltage current power resistance temperatureC dPlus dMinus mode group groupEnergyWh
    groupChargeMah approximate rssi gatewayId""".split()
# Steps of the last digit in V, A, W and Ω.
DIGITS = {
    "um24c": {"voltage": 0.01, "current": 0.001, "power": 0.001, "resistance": 0.1},
    "um25c": {"voltage": 0.001, "current": 0.0001, "power": 0.001, "resistance": 0.1},
    "um34c": {"voltage": 0.01, "current": 0.001, "power": 0.001, "resistance": 0.1},
    "tc66c": {"voltage": 0.0001, "current": 0.00001, "power": 0.0001, "resistance": 0.1},
}


def one_completed(agent, listener, limit):
    """Waits for the summary of the one session, and returns it as the broker has it."""
    last = agent.stage.wait(
        "session/last with a session", lambda: listener.of("session/last", MAC), limit)
    return last[-1].json


def check_session(agent, broker, summary):
    """The session is the only one, and the same everywhere."""
    equal([key for key in SUMMARY_KEYS if key not in summary], [], "missing keys of the summary")
    listed = agent.sessions()
    equal(len(listed), 1, "sessions in the list")
    equal(listed[0], summary, "the listed session, against the published one")
    retained = broker.retained()
    for topic in (f"usbmeter/meter/{MAC}/session/last",
                  f"usbmeter/meter/{MAC}/sessions/{summary['sessionId']}"):
        check(topic in retained, f"{topic} is retained", sorted(retained))
        equal(retained[topic].json, summary, topic)
    topics = [topic for topic in retained if "/sessions/" in topic]
    equal(len(topics), 1, f"retained sessions {topics}")
    check(not any(topic.endswith("/live") for topic in retained), "live values are not retained")


def check_live(listener, gaps=False):
    """Rate, numbers and order of the live messages. Returns them."""
    live = listener.of("live", MAC)
    check(len(live) > 20, "live messages", len(live))
    bodies = [message.json for message in live]
    equal(sorted(bodies[0]), sorted(LIVE_KEYS), "keys of a live message")
    check(all(m.qos == 0 and not m.retained for m in live), "live messages: QoS 0, not retained")
    equal([body["seq"] for body in bodies], list(range(1, len(bodies) + 1)), "seq")
    times = [seconds(body["ts"]) for body in bodies]
    check(times == sorted(times), "ts rises")
    late = max(m.time - at for m, at in zip(live, times))
    check(late < 1, f"a live message took {late:.2f} s to its listener")
    if not gaps:
        expected = (times[-1] - times[0]) / INTERVAL + 1
        near(len(live), expected, 0.05 * expected, "live messages at the poll rate")
    return bodies, late


def check_levels(listener):
    """Availability and counters over the whole run."""
    availability = listener.of("availability", MAC)
    check(availability and all(m.retained and m.qos == 1 for m in availability), "availability")
    first_live = listener.of("live", MAC)[0]
    online = next((m for m in availability if m.payload == "online"), None)
    check(online is not None and online.time - first_live.time < 2, "online with the first answer")
    counters = listener.of("counters", MAC)
    values = [m.json["energyTotalWh"] for m in counters]
    check(all(m.retained and m.qos == 1 for m in counters), "counters are retained")
    check(values == sorted(values) and values[-1] > values[0], "counters rise", values)
    states = [m.json["state"] for m in listener.of("session/current", MAC)]
    check("running" in states and states[-1] == "idle", "session/current runs and ends", states)
    return values


def check_end(agent, broker):
    """SIGTERM: prompt, said to the broker, logged."""
    code, took = agent.program.end(5)
    equal(code, 0, "exit code after SIGTERM")
    retained = broker.retained()
    equal(retained["usbmeter/gateway/bench-1/status"].payload, "offline", "retained gateway status")
    equal(retained[f"usbmeter/meter/{MAC}/availability"].payload, "offline", "retained availability")
    texts = [text for _, text in agent.lines()]
    check("stopping" in texts and texts[-1] == "stopped", "the log tells of the end", texts[-3:])
    check("Client usbmeter-bench-1 disconnected." in broker.program.log,
          "the broker was taken leave of, not left to its will", broker.program.log[-500:])
    return took


def clean_charge(stage, model):
    # What the meter shows twice a second is a quarter of a second old in the mean, which adds as much of
    # the current that the taper takes away: 0.2 s of full power. The charge is long enough for that to be
    # well below 0.5 %. The voltage under load lies just above a step of the UM34C, which cuts digits off.
    broker = Broker(stage)
    listener = Listener(broker)
    agent = Agent(stage, configuration(
        stage, [("meter", model)], broker, sessions="start_delay: 2 s, end_delay: 8 s"))
    meter = Meter(stage, "meter", model, (4, 1.2, 66, 8, 30), voltage=5.147, noise=0.005)
    agent.start()
    summary = one_completed(agent, listener, 110)
    stage.sleep(0.5)
    check_session(agent, broker, summary)
    bodies, late = check_live(listener)
    totals = check_levels(listener)
    complaints = agent.complaints()
    took = check_end(agent, broker)
    _, truth = meter.truth()

    equal(complaints, [], "warnings and errors in the log")
    energy = summary["energyWh"] / truth["charge_energy_wh"] - 1
    end = seconds(summary["endedAt"]) - truth["charge_end"]
    start = seconds(summary["startedAt"]) - truth["charge_start"]
    stage.note(f"energy {energy:+.2%}, start {start:+.2f} s, end {end:+.2f} s")
    stage.note(f"{len(bodies)} live, latest after {late * 1000:.0f} ms, ended in {took:.2f} s")
    check(abs(energy) <= 0.005, f"energy is off by {energy:+.2%}", summary, truth)
    check(abs(end) <= 3, f"the end is off by {end:+.2f} s")
    check(abs(start) <= 3, f"the start is off by {start:+.2f} s")
    near(summary["chargeMah"], truth["charge_charge_mah"], 0.005 * truth["charge_charge_mah"],
         "charge")
    near(summary["durationS"], truth["charge_end"] - truth["charge_start"], 3, "duration")
    near(summary["peakPower"], truth["peak_power"], 0.02 * truth["peak_power"], "peak power")
    near(totals[-1], truth["energy_wh"], 0.01 * truth["energy_wh"], "the total")
    equal((summary["endReason"], summary["modelType"], summary["macAddress"], summary["gatewayId"],
           summary["rejectedFrames"] > len(bodies) / 20, summary["gaps"]),
          ("currentStopped", model.upper(), MAC, "bench-1", False, []), "the summary")


for clean_model in ("um25c", "um34c", "tc66c"):
    test(f"charge-{clean_model}")(lambda stage, model=clean_model: clean_charge(stage, model))


# --- With faults --------------------------------------------------------------------------------

def slack(sent, model):
    """How far off each value may be. A TC66C's answer has a check over all of it: not by more than its
    last digit. Most of an UM's answer has none, or one that single bits slip through; there volts,
    amperes and watts have to agree within their last digits and a little for a load that changes
    meanwhile, and that is all that a flipped low bit can hide in. The resistance and the data lines
    have weaker witnesses, the counters only that they move as the load does.
    """
    steps = DIGITS[model]
    allowed = {key: step * 1.001 for key, step in steps.items()}
    allowed.update(temperatureC=0, dPlus=0, dMinus=0, groupEnergyWh=0, groupChargeMah=0)
    if model != "tc66c":
        volts, amperes = sent["voltage"], sent["current"]
        watts = (steps["voltage"] * amperes + steps["current"] * volts + 0.002
                 + 0.002 * sent["power"])
        allowed["power"] = watts
        if amperes > 0.02:
            allowed["voltage"] = max(allowed["voltage"], watts / amperes)
            allowed["current"] = max(allowed["current"], watts / volts)
        allowed.update(resistance=0.3 + sent["resistance"] / 12, dPlus=0.15, dMinus=0.15,
                       groupEnergyWh=0.0011, groupChargeMah=1)
    return allowed


def misfit(body, frame, model):
    """What of a live message is not what the meter has measured in a frame."""
    sent, is_um = frame["sent"], model != "tc66c"
    expected = {
        **{key: sent[key] for key in DIGITS[model]}, "temperatureC": sent["temperature"],
        "dPlus": sent["d_plus"], "dMinus": sent["d_minus"],
        "groupEnergyWh": frame["shown_mwh"] / 1000 if is_um else None,
        "groupChargeMah": frame["shown_mah"] if is_um else None}
    if sent["resistance"] > 9000:  # open circuit
        expected["resistance"] = None
    wrong, allowed = [], slack(sent, model)
    for key, value in expected.items():
        found = body[key]
        if None in (found, value) and found != value or None not in (found, value) and abs(
                found - value) > allowed[key]:
            wrong.append(f"{key} {found} for {value}")
    exact = {"group": 0 if is_um else None, "rssi": None}
    if model != "um34c":
        exact["mode"] = None
    wrong += [f"{key} {body[key]} for {value}" for key, value in exact.items() if body[key] != value]
    return wrong


def wrong_values(bodies, frames, model):
    """Live messages that fit no frame which the meter made at that time."""
    found, start = [], 0
    for body in bodies:
        at = seconds(body["ts"])
        while start < len(frames) and frames[start]["wall"] < at - 1.5:
            start += 1
        candidates = []
        for frame in frames[start:]:
            if frame["wall"] > at + 0.05:
                break
            candidates.append(misfit(body, frame, model))
        check(candidates, f"no frame was made before the live message {body}")
        best = min(candidates, key=len)
        if best:
            found.append((body["ts"], best))
    return found


def faulty_charge(stage, model, loss):
    broker = Broker(stage)
    listener = Listener(broker)
    agent = Agent(stage, configuration(
        stage, [("meter", model)], broker, sessions="start_delay: 2 s, end_delay: 8 s"))
    # Power enough for the counter's step of 1 mWh to matter little when it has to fill the gap. Of what
    # an UM lets through between its return and its first answers nobody can know; the agent looks for
    # a terminal once a second, so that is up to 1.4 s, and the charge is long enough for that.
    hold = 135 if loss == "vanishing" and model != "tc66c" else 110
    meter = Meter(
        stage, "meter", model, (4, 3, hold, 8, 30), voltage=12.25, noise=0.005,
        faults="split,stray,cut,flip,badcheck", fault_rate=0.06, power_loss="25,20",
        power_loss_as=loss, seed=sum(map(ord, model + loss)))
    agent.start()
    summary = one_completed(agent, listener, hold + 45)
    stage.sleep(0.5)
    check_session(agent, broker, summary)
    bodies, _ = check_live(listener, gaps=True)
    totals = check_levels(listener)
    complaints = agent.complaints()
    check_end(agent, broker)
    frames, truth = meter.truth()

    energy = summary["energyWh"] / truth["charge_energy_wh"] - 1
    end = seconds(summary["endedAt"]) - truth["charge_end"]
    stage.note(f"energy {energy:+.2%} ({summary['energySource']}), end {end:+.2f} s")
    stage.note(f"{len(bodies)} live from {truth['frames']} answers with "
               + ", ".join(f"{n} {name}" for name, n in sorted(truth["faults"].items())))
    equal(truth["power_losses"], 1, "power losses")
    wrong = wrong_values(bodies, frames, model)
    check(not wrong, f"{len(wrong)} of {len(bodies)} live messages are wrong", *wrong[:8])
    check(abs(energy) <= 0.01, f"energy is off by {energy:+.2%}", summary, truth)
    check(abs(end) <= 3, f"the end is off by {end:+.2f} s")
    near(totals[-1], truth["energy_wh"], 0.015 * truth["energy_wh"], "the total")
    check(summary["rejectedFrames"] > 0, "the receipt counts rejected frames")
    equal(summary["endReason"], "currentStopped", "endReason")
    # One line on each loss and one on each return. Two damaged answers one after the other are a loss
    # too, as the meter was silent twice; single ones are no reason to complain.
    back = [text for _, text in agent.lines() if "back after" in text]
    check(back and len(complaints) == len(back) <= 4,
          "one line of the log on each loss, and one on each return", complaints, back)


for faulty_model, faulty_loss in (
        ("um25c", "vanishing"), ("um25c", "silence"), ("um34c", "silence"), ("tc66c", "vanishing"),
        ("tc66c", "silence")):
    test(f"faults-{faulty_model}-{faulty_loss}")(
        lambda stage, model=faulty_model, loss=faulty_loss: faulty_charge(stage, model, loss))


def flipped_bits(stage, model):
    """Nothing but flipped bits, in half of the answers: what the meter's check does not cover."""
    broker = Broker(stage)
    listener = Listener(broker)
    agent = Agent(stage, configuration(stage, [("meter", model)], broker))
    meter = Meter(stage, "meter", model, (4, 2, 60, 8, 10), voltage=5.147, faults="flip",
                  fault_rate=0.5, seed=sum(map(ord, model)))
    agent.start()
    stage.sleep(66)
    agent.program.end()
    frames, truth = meter.truth()
    bodies = [message.json for message in listener.of("live", MAC)]
    stage.note(f"{len(bodies)} live from {truth['frames']} answers, {truth['faults']['flip']} of them "
               "with a flipped bit")
    check(len(bodies) > 60, "live messages in spite of it", len(bodies))
    wrong = wrong_values(bodies, frames, model)
    check(not wrong, f"{len(wrong)} of {len(bodies)} live messages are wrong", *wrong[:8])


for flipped_model in ("um24c", "um25c", "um34c"):
    test(f"flips-{flipped_model}")(lambda stage, model=flipped_model: flipped_bits(stage, model))
