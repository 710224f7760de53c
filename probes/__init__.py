"""One probe a file. Each plugs into the core through its entry point, as a third party's would."""
