// MeterSim
