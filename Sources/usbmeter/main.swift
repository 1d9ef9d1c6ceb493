print("usbmeter")
