// MeterStore
