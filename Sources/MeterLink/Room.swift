// MeterLink
