// MeterMQTT
