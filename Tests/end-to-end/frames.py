"""Answers of real meters as other projects have published them: the bytes, where they are from, and what
they mean. Those of the UM24C and of the UM25C were put together again from printed values."""

ZERO = {"chargeMah": 0, "energyWh": 0}
FRAMES = [
    # jarvisms/PythonUM24C README.md
    ("um24c", (
        "0963021603970000132b001a004f0003000000b1000003a6000000000000000000000000000000000000"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000008500850000000005dd00001f750000000013b00000000900000000003a"
        "0000fff1"), {
        "model": "UM24C",
        "voltage": 5.34,
        "current": 0.919,
        "power": 4.907,
        "resistance": 5.8,
        "dPlus": 1.33,
        "dMinus": 1.33,
        "check": "ok",
        "temperatureC": 26,
        "temperatureF": 79,
        "mode": 0, "modeName": None,
        "group": 3,
        "groups": [{"chargeMah": 177, "energyWh": 0.934}] + [ZERO] * 9,
        "recording": {"chargeMah": 1501, "energyWh": 8.053, "seconds": 5040,
                      "thresholdA": 0.0, "active": False},
        "backlight": 0,
        "screenTimeoutMin": 9,
        "screen": 0,
        "product": None,
        "version": None,
        "serial": None,
        "runs": None,
    }),
    # rfinnie/rdserialtool README.md
    ("um25c", (
        "09c913c6047a000002440019004e00000000000100000009000000000000000000000000000000000000"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000000000000001000000070000000000000000000d00000000000000020004000001b9"
        "0001fff1"), {
        "model": "UM25C",
        "voltage": 5.062,
        "current": 0.1146,
        "power": 0.58,
        "resistance": 44.1,
        "dPlus": 0.01,
        "dMinus": 0.0,
        "check": "ok",
        "temperatureC": 25,
        "temperatureF": 78,
        "mode": 7, "modeName": "dcp_1_5a",
        "group": 0,
        "groups": [{"chargeMah": 1, "energyWh": 0.009}] + [ZERO] * 9,
        "recording": {"chargeMah": 0, "energyWh": 0.0, "seconds": 0,
                      "thresholdA": 0.13, "active": False},
        "backlight": 4,
        "screenTimeoutMin": 2,
        "screen": 1,
        "product": None,
        "version": None,
        "serial": None,
        "runs": None,
    }),
    # sebastianha/um34c app.js
    ("um34c", (
        "0d4c01f5008e000002c7001b005100010000000000000000000000070000002700000000000000000000"
        "000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "000000000000000000000000000200010007000000070000002500130000004600000001000400000160"
        "00008068"), {
        "model": "UM34C",
        "voltage": 5.01,
        "current": 0.142,
        "power": 0.711,
        "resistance": 35.2,
        "dPlus": 0.02,
        "dMinus": 0.01,
        "check": "ok",
        "temperatureC": 27,
        "temperatureF": 81,
        "mode": 7, "modeName": "dcp_1_5a",
        "group": 1,
        "groups": [ZERO] + [{"chargeMah": 7, "energyWh": 0.039}] + [ZERO] * 8,
        "recording": {"chargeMah": 7, "energyWh": 0.037, "seconds": 70,
                      "thresholdA": 0.19, "active": False},
        "backlight": 4,
        "screenTimeoutMin": 1,
        "screen": 0,
        "product": None,
        "version": None,
        "serial": None,
        "runs": None,
    }),
    # jedie/tc66c2mqtt tc66c2mqtt/tests/fixtures.py
    ("tc66c", (
        "006630928cdbb01e307647693bac80b012a60ec3c8645b9af0ead3c57ae5a0628f330593ff8f836a2a36"
        "d60f8709fc4fc5ec277ef1b0dbb4815a9497d8646eb206f404f8061c1177e994f37dfc6f4dab07385ea4"
        "d05c1e32616e88527b57d3106babf8c170d31db582db234384fa559313e92b412f6af4e16e09168c608f"
        "ba0a4231f411e56f5c203c590b4a68fd5b092aca6ec4a4554d5542e8674b097e259c2aca6ec4a4554d55"
        "42e8674b097e259ce09c4004c92da948c3165eebdb8b9ec2"), {
        "model": "TC66C",
        "voltage": 5.1609,
        "current": 0.0199,
        "power": 0.1026,
        "resistance": 259.3,
        "dPlus": 2.81,
        "dMinus": 2.8,
        "check": "ok",
        "temperatureC": 27,
        "temperatureF": None,
        "mode": None, "modeName": None,
        "group": None,
        "groups": [{"chargeMah": 0, "energyWh": 0.005}, {"chargeMah": 0, "energyWh": 0.0}],
        "recording": None,
        "product": "TC66",
        "version": "1.18",
        "serial": 48724,
        "runs": 40,
    }),
]
